"""DirectML on a Direct3D 12 device of Windows, called through ctypes.

Numbers of flags and states, and positions of methods, are those of d3dcommon.h, d3d12.h, dxgi.h and DirectML.h. Structs
are packed in the layout of these headers.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sliceport.device.com import IDML_DEVICE, ComObject, OperatorFactory, call_method, create, raise_on_failure
from sliceport.directml.feature_levels import FeatureLevel

_D3D12_DEVICE = uuid.UUID("189819f1-1db6-4b57-be54-1821339b85f7").bytes_le
_QUEUE = uuid.UUID("0ec870a6-5d7e-4c22-8cfc-5baae07616ed").bytes_le
_ALLOCATOR = uuid.UUID("6102dee4-af59-4b09-b999-b44d73f09b24").bytes_le
_LIST = uuid.UUID("5b160d0f-ac1b-4185-8ba8-b3ae42a5a455").bytes_le
_FENCE = uuid.UUID("0a753dcf-c4d8-4b91-adf6-be5a60d95a76").bytes_le
_RESOURCE = uuid.UUID("696442be-a72e-4059-bc79-5b5c98040fad").bytes_le
_HEAP = uuid.UUID("8efb471d-616c-4f49-90f7-127bb763fa51").bytes_le
_FACTORY = uuid.UUID("770aae78-f26f-4dba-a829-253c83d1b387").bytes_le
_COMPILED_OPERATOR = uuid.UUID("6b15e56a-bf5c-4902-92d8-da3a650afea4").bytes_le
_INITIALIZER = uuid.UUID("427c1113-435c-469c-8676-4d5dd072f813").bytes_le
_BINDING_TABLE = uuid.UUID("29c687dc-de74-4e3b-ab00-1168f2fc3cfc").bytes_le
_RECORDER = uuid.UUID("e6857a76-2e3e-4fdd-bff4-5d2ba10fb453").bytes_le
_DEFAULT, _UPLOAD, _READBACK = 1, 2, 3  # D3D12_HEAP_TYPE
_FEATURE_LEVEL_11_0 = 0xB000
_UNORDERED_ACCESS, _COPY_DEST, _COPY_SOURCE, _GENERIC_READ = 0x8, 0x400, 0x800, 0xAC3  # D3D12_RESOURCE_STATES
_MAX_COMPILED = 64
"""Limit of the number of cached compiled operators, because each keeps memory."""

_Binding = tuple[ComObject, int, int]
"""A buffer, the start of a tensor in it, and the size of the buffer."""
_Dispatchable = tuple[ComObject, ComObject | None]
"""A compiled operator with the memory that its initializer has written, if it needs any; or an initializer and None."""


class Direct3DDevice(OperatorFactory):
    """A DirectML device that runs operators.

    Args:
        folder: The folder of DirectML.dll.
        adapter_index: The number of the adapter, in the order of DXGI.

    Attributes:
        adapter: The name of the adapter.

    Raises:
        CallFailed: No adapter has this number, or a device cannot be created on the adapter.
        OSError: A library cannot be loaded.
    """

    def __init__(self, folder: Path, adapter_index: int = 0) -> None:
        factory = create(_load("dxgi.dll").CreateDXGIFactory1, "CreateDXGIFactory1", _FACTORY)
        adapter = factory.create("EnumAdapters", 7, adapter_index)
        description = ctypes.create_string_buffer(304)  # DXGI_ADAPTER_DESC
        adapter.call("GetDesc", 8, ctypes.addressof(description))
        self.adapter = ctypes.wstring_at(ctypes.addressof(description))  # its first member, the name
        create_device = _load("d3d12.dll").D3D12CreateDevice
        self._d3d = create(create_device, "D3D12CreateDevice", adapter.address, _FEATURE_LEVEL_11_0, _D3D12_DEVICE)
        create_dml = _load(str(folder / "DirectML.dll")).DMLCreateDevice1
        # device, flags, minimum feature level, interface
        arguments = (self._d3d.address, 0, int(FeatureLevel.V1_0), IDML_DEVICE)
        super().__init__(create(create_dml, "DMLCreateDevice1", *arguments))
        queue = struct.pack("=4i", 0, 0, 0, 0)  # D3D12_COMMAND_QUEUE_DESC of a direct queue
        self._queue = self._d3d.create("CreateCommandQueue", 8, queue, _QUEUE)
        self._allocator = self._d3d.create("CreateCommandAllocator", 9, 0, _ALLOCATOR)
        self._list = self._d3d.create("CreateCommandList", 12, 0, 0, self._allocator.address, 0, _LIST)
        self._fence = self._d3d.create("CreateFence", 36, 0, 0, _FENCE)
        self._recorder = self.dml.create("CreateCommandRecorder", 11, _RECORDER)
        self._fence_value = 0
        self._compiled: dict[bytes, _Dispatchable] = {}

    def shader_model(self) -> str:
        """Return the adapter's highest shader model, up to 6.6.

        Raises:
            CallFailed: The query fails.
        """
        model = ctypes.c_uint32(0x66)  # the call lowers it to what the adapter supports
        self._d3d.call("CheckFeatureSupport", 13, 7, ctypes.addressof(model), 4)  # D3D12_FEATURE_SHADER_MODEL
        return f"{model.value >> 4}.{model.value & 15}"

    def run(self, key: bytes, operator: int, data: bytes, sizes: Sequence[int], offset: int) -> bytes:
        """Run an operator.

        Args:
            key: Bytes that identify the operator. Compiled operators are cached by key, because the layers of a model
                often repeat an operator.
            operator: The address of its DML_OPERATOR_DESC.
            data: The contents of all buffers before the run, the input's first.
            sizes: The sizes of the buffers in bytes, multiples of 4.
            offset: The start of the input tensor in its buffer, in bytes.

        Returns:
            The contents of the output buffers, one after the other.

        Raises:
            CallFailed: DirectML refuses the operator, a buffer cannot be created, or the device is lost.
        """
        if key not in self._compiled:
            if len(self._compiled) == _MAX_COMPILED:
                self._compiled.clear()
            self._compiled[key] = self._compile(operator)
        upload = self._create_buffer(len(data), _UPLOAD, _GENERIC_READ)
        ctypes.memmove(_map(upload), data, len(data))
        position = 0
        bindings: list[_Binding] = []
        for size in sizes:
            buffer = self._create_buffer(size, _DEFAULT, _COPY_DEST)
            self._record_copy(buffer, 0, upload, position, size)
            self._transition(buffer, _COPY_DEST, _UNORDERED_ACCESS)
            bindings.append((buffer, 0 if bindings else offset, size))
            position += size
        # Recorded commands hold no references to the objects that they use, so `in_use` holds those of the dispatch.
        in_use = self._dispatch(self._compiled[key], bindings[:1], bindings[1:])
        readback = self._create_buffer(sum(sizes[1:]), _READBACK, _COPY_DEST)
        position = 0
        for buffer, _, size in bindings[1:]:
            self._transition(buffer, _UNORDERED_ACCESS, _COPY_SOURCE)
            self._record_copy(readback, position, buffer, 0, size)
            position += size
        self._finish()
        del in_use
        return ctypes.string_at(_map(readback), position)

    def _compile(self, operator: int) -> _Dispatchable:
        """Create, compile and initialize an operator, given by the address of its DML_OPERATOR_DESC."""
        created = self.new_operator(operator)
        compiled = self.dml.create("CompileOperator", 9, created.address, 0, _COMPILED_OPERATOR)
        operators = struct.pack("=Q", compiled.address)
        initializer = self.dml.create("CreateOperatorInitializer", 10, 1, operators, _INITIALIZER)
        _, _, size = _binding_properties(compiled)
        persistent = self._create_buffer(size, _DEFAULT, _UNORDERED_ACCESS) if size else None
        in_use = self._dispatch((initializer, None), [], [(persistent, 0, size)] if persistent else [])
        self._finish()
        del in_use  # must live until the commands have run
        return compiled, persistent

    def _dispatch(self, prepared: _Dispatchable, inputs: Sequence[_Binding], outputs: Sequence[_Binding]) -> list[Any]:
        """Record a dispatch that reads and writes buffers, and return the objects that must live until it has run."""
        dispatchable, persistent = prepared
        count, temporary_size, persistent_size = _binding_properties(dispatchable)
        count = max(count, 1)  # a heap of descriptors must not be empty
        # D3D12_DESCRIPTOR_HEAP_DESC: CBV_SRV_UAV, the count, SHADER_VISIBLE
        heap = self._d3d.create("CreateDescriptorHeap", 14, struct.pack("=iIiI", 0, count, 1, 0), _HEAP)
        call_method(self._list.address, 28, 1, struct.pack("=Q", heap.address))  # SetDescriptorHeaps
        # GetCPUDescriptorHandleForHeapStart and GetGPUDescriptorHandleForHeapStart
        starts = _read_struct(heap, 9, "=Q") + _read_struct(heap, 10, "=Q")
        desc = struct.pack("=4Q", dispatchable.address, *starts, count)  # DML_BINDING_TABLE_DESC
        table = self.dml.create("CreateBindingTable", 12, desc, _BINDING_TABLE)
        temporary = self._create_buffer(temporary_size, _DEFAULT, _UNORDERED_ACCESS) if temporary_size else None
        if temporary is not None:
            _bind(table, 10, [(temporary, 0, temporary_size)])  # BindTemporaryResource
        if persistent is not None:
            _bind(table, 11, [(persistent, 0, persistent_size)])  # BindPersistentResource
        for name, slot, buffers in (("BindInputs", 8, inputs), ("BindOutputs", 9, outputs)):
            if buffers:
                _bind(table, slot, buffers, len(buffers))
                self._check_not_removed(name)
        # RecordDispatch
        call_method(self._recorder.address, 8, self._list.address, dispatchable.address, table.address)
        self._check_not_removed("RecordDispatch")
        return [heap, table, temporary]

    def _check_not_removed(self, name: str) -> None:
        """Raise CallFailed for `name` if the device is lost. Methods without a result show errors in no other way."""
        raise_on_failure(name, call_method(self.dml.address, 15))  # GetDeviceRemovedReason

    def _create_buffer(self, size: int, heap: int, state: int) -> ComObject:
        """Create a buffer of `size` bytes. `heap` is a D3D12_HEAP_TYPE, `state` the initial D3D12_RESOURCE_STATES."""
        properties = struct.pack("=3i2I", heap, 0, 0, 1, 1)  # D3D12_HEAP_PROPERTIES
        flags = 4 if heap == _DEFAULT else 0  # ALLOW_UNORDERED_ACCESS
        # D3D12_RESOURCE_DESC of a buffer: row-major, one sample, one level
        desc = struct.pack("=i4xQQI2Hi2Iii4x", 1, 0, size, 1, 1, 1, 0, 1, 0, 1, flags)
        return self._d3d.create("CreateCommittedResource", 27, properties, 0, desc, state, 0, _RESOURCE)

    def _record_copy(self, target: ComObject, target_offset: int, source: ComObject, offset: int, size: int) -> None:
        """Record a copy of `size` bytes by CopyBufferRegion."""
        call_method(self._list.address, 15, target.address, target_offset, source.address, offset, size)

    def _transition(self, buffer: ComObject, before: int, after: int) -> None:
        """Record the change of a buffer from state `before` to `after`, both D3D12_RESOURCE_STATES."""
        barrier = struct.pack("=2iQ3I4x", 0, 0, buffer.address, 0, before, after)  # D3D12_RESOURCE_BARRIER
        call_method(self._list.address, 26, 1, barrier)  # ResourceBarrier

    def _finish(self) -> None:
        """Execute the recorded commands, wait for their end, and begin a new command list."""
        self._list.call("CommandList::Close", 9)
        call_method(self._queue.address, 10, 1, struct.pack("=Q", self._list.address))  # ExecuteCommandLists
        self._fence_value += 1
        self._queue.call("CommandQueue::Signal", 14, self._fence.address, self._fence_value)
        self._fence.call("Fence::SetEventOnCompletion", 9, self._fence_value, 0)  # Without an event, the call waits.
        self._check_not_removed("ExecuteCommandLists")
        self._allocator.call("CommandAllocator::Reset", 8)
        self._list.call("CommandList::Reset", 10, self._allocator.address, 0)


def _bind(table: ComObject, slot: int, bindings: Sequence[_Binding], *count: int) -> None:
    """Call a method of an IDMLBindingTable with buffers. Only some methods take a `count` of buffers."""
    # DML_BUFFER_BINDINGs of 24 bytes, and DML_BINDING_DESCs of type 1 (DML_BINDING_TYPE_BUFFER) that point to them.
    structs = b"".join(struct.pack("=3Q", buffer.address, offset, size - offset) for buffer, offset, size in bindings)
    memory = ctypes.create_string_buffer(structs, len(structs))
    descs = (struct.pack("=i4xQ", 1, ctypes.addressof(memory) + 24 * i) for i in range(len(bindings)))
    call_method(table.address, slot, *count, b"".join(descs))


def _load(name: str) -> Any:
    if sys.platform != "win32":
        raise OSError(f"{name} is a library of Windows")
    return ctypes.WinDLL(name)


def _binding_properties(dispatchable: ComObject) -> tuple[int, int, int]:
    """Return what a dispatch needs: the number of descriptors, and the bytes of temporary and of persistent memory."""
    count, temporary, persistent = _read_struct(dispatchable, 8, "=I4xQQ")  # GetBindingProperties
    return count, temporary, persistent


def _read_struct(owner: ComObject, slot: int, layout: str) -> tuple[int, ...]:
    """Return the members of the struct that a method returns. MSVC passes the struct's address as a hidden argument."""
    result = ctypes.create_string_buffer(struct.calcsize(layout))
    call_method(owner.address, slot, ctypes.addressof(result))
    return struct.unpack(layout, result.raw)


def _map(buffer: ComObject) -> int:
    """Return the address of a buffer's memory, which stays mapped until the buffer is released."""
    address = ctypes.c_void_p()
    # Map is at position 8 of the interface's methods. The zeros are the subresource and a null pointer for the range.
    buffer.call("Map", 8, 0, 0, ctypes.addressof(address))
    return address.value or 0
