// The host program of Linux: DirectML and onnxruntime's DirectML provider, in Wine, behind a pipe.
//
// It reads the headers of requests from stdin, and their payloads from memory that the client shares (SLICEPORT_MEMORY).
// It writes an answer to each request to stdout: u32 header bytes, u64 payload bytes, the header (JSON), the payload.
// protocol.py describes both. The answer to a failed call is {"error": {"call", "hresult", "message"}}; only a closed
// pipe or a malformed frame ends the process.
//
// Requests by "do":
//   facts   levels                                        versions, adapter, the highest of these feature levels
//   create  operator                                      CreateOperator alone
//   run     operator, input, offset, outputs              create, compile, initialise, run
//   onnx    model_size, files, weights, inputs, outputs,  run a model on the DirectML provider, name its nodes' providers;
//           config                                        the client sends open data files through SLICEPORT_SOCKET
// An operator is an Image of abi.py, whose numbers are passed to DirectML unchecked, wrong ones too.

#include <windows.h>

#include <initguid.h>

#include <directx/d3d12.h>
#include <dxgi1_6.h>
#include <fcntl.h>
#include <io.h>
#include <wrl/client.h>

#include <directx/DirectML.h>
#include <nlohmann/json.hpp>
#define ORT_API_MANUAL_INIT
#include <onnxruntime/onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guids.h"
#include "native_vkd3d.h"

using Microsoft::WRL::ComPtr;
using nlohmann::json;
using Bytes = std::vector<unsigned char>;

struct Failure : std::runtime_error {
    HRESULT hresult;
    std::string call;
    Failure(std::string c, HRESULT h, const std::string &message = "") : std::runtime_error(message), hresult(h), call(std::move(c)) {}
};

static void check(HRESULT hr, const char *call) {
    if (FAILED(hr)) throw Failure(call, hr);
}

// An operator's structs: a copy of the Image of abi.py, with its pointers relocated.
class Desc {
    std::vector<UINT64> memory;

  public:
    const DML_OPERATOR_DESC *desc;

    Desc(const json &image, const unsigned char *bytes) : memory((image.at("size").get<size_t>() + 7) / 8) {
        auto *base = reinterpret_cast<unsigned char *>(memory.data());
        memcpy(base, bytes, image["size"].get<size_t>());
        for (const size_t place : image.at("pointers")) memory.at(place / 8) += reinterpret_cast<UINT64>(base);
        desc = reinterpret_cast<DML_OPERATOR_DESC *>(base + image.at("desc").get<size_t>());
    }
    Desc(const Desc &) = delete;
};

// ---- the device ----------------------------------------------------------------------------------------------------

static HRESULT STDMETHODCALLTYPE no_meta_commands(ID3D12Device5 *, UINT *count, D3D12_META_COMMAND_DESC *) {
    if (count) *count = 0;
    return S_OK;
}

// libvkd3d answers EnumerateMetaCommands with E_NOTIMPL, and DirectML then fails; the right answer is a count of 0.
static void answer_meta_commands(ID3D12Device *device) {
    ComPtr<ID3D12Device5> device5;
    if (FAILED(device->QueryInterface(IID_ID3D12Device5, &device5))) return;
    UINT count = 0;
    if (device5->EnumerateMetaCommands(&count, nullptr) != E_NOTIMPL) return;
    const int slot = 59;  // EnumerateMetaCommands
    (*reinterpret_cast<void ***>(device5.Get()))[slot] = reinterpret_cast<void *>(no_meta_commands);
}

// Compilers return structs from methods in different ways, so call these methods through the table of virtual functions,
// with the hidden pointer to the result as an argument.
static DML_BINDING_PROPERTIES binding_properties(IDMLDispatchable *d) {
    DML_BINDING_PROPERTIES p{};
    using Call = void *(STDMETHODCALLTYPE *)(IDMLDispatchable *, DML_BINDING_PROPERTIES *);
    reinterpret_cast<Call>((*reinterpret_cast<void ***>(d))[8])(d, &p);  // GetBindingProperties
    return p;
}

template <class Handle> static Handle heap_start(ID3D12DescriptorHeap *heap, int slot) {
    Handle h{};
    using Call = void *(STDMETHODCALLTYPE *)(ID3D12DescriptorHeap *, Handle *);
    reinterpret_cast<Call>((*reinterpret_cast<void ***>(heap))[slot])(heap, &h);
    return h;
}

struct Compiled {
    ComPtr<IDMLCompiledOperator> op;
    ComPtr<ID3D12Resource> persistent;
    DML_BINDING_PROPERTIES needs{};
};

struct Device {
    ComPtr<ID3D12Device> d3d;
    ComPtr<IDMLDevice> dml;
    ComPtr<ID3D12CommandQueue> queue;
    ComPtr<ID3D12CommandAllocator> allocator;
    ComPtr<ID3D12GraphicsCommandList> list;
    ComPtr<ID3D12Fence> fence;
    ComPtr<IDMLCommandRecorder> recorder;
    ComPtr<ID3D12DescriptorHeap> heap;
    UINT heap_size = 0;
    UINT64 fence_value = 0;
    std::string adapter;
    std::map<std::string, Compiled> compiled;

    Device() {
        using CreateDml = HRESULT(WINAPI *)(ID3D12Device *, DML_CREATE_DEVICE_FLAGS, DML_FEATURE_LEVEL, REFIID, void **);
        HMODULE directml = LoadLibraryA("DirectML.dll");
        if (!directml) throw Failure("LoadLibrary", E_FAIL, "DirectML.dll cannot be loaded");
        auto create_dml = reinterpret_cast<CreateDml>(GetProcAddress(directml, "DMLCreateDevice1"));
        ComPtr<IDXGIFactory1> factory;
        ComPtr<IDXGIAdapter> first;
        DXGI_ADAPTER_DESC description{};
        check(CreateDXGIFactory1(IID_IDXGIFactory1, &factory), "CreateDXGIFactory1");
        check(factory->EnumAdapters(0, &first), "EnumAdapters");
        check(first->GetDesc(&description), "GetDesc");
        check(create_native_device(&d3d, description.AdapterLuid, adapter), "D3D12CreateDevice");
        answer_meta_commands(d3d.Get());
        check(create_dml(d3d.Get(), DML_CREATE_DEVICE_FLAG_NONE, DML_FEATURE_LEVEL_1_0, IID_IDMLDevice, &dml), "DMLCreateDevice1");
        D3D12_COMMAND_QUEUE_DESC q{};
        q.Type = D3D12_COMMAND_LIST_TYPE_DIRECT;
        check(d3d->CreateCommandQueue(&q, IID_ID3D12CommandQueue, &queue), "CreateCommandQueue");
        check(d3d->CreateCommandAllocator(q.Type, IID_ID3D12CommandAllocator, &allocator), "CreateCommandAllocator");
        check(d3d->CreateCommandList(0, q.Type, allocator.Get(), nullptr, IID_ID3D12GraphicsCommandList, &list), "CreateCommandList");
        check(d3d->CreateFence(0, D3D12_FENCE_FLAG_NONE, IID_ID3D12Fence, &fence), "CreateFence");
        check(dml->CreateCommandRecorder(IID_IDMLCommandRecorder, &recorder), "CreateCommandRecorder");
    }

    ComPtr<ID3D12Resource> buffer(UINT64 size, D3D12_HEAP_TYPE heap, D3D12_RESOURCE_STATES state) {
        D3D12_HEAP_PROPERTIES properties{};
        properties.Type = heap;
        properties.CreationNodeMask = properties.VisibleNodeMask = 1;
        D3D12_RESOURCE_DESC d{};
        d.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        d.Width = size;
        d.Height = d.DepthOrArraySize = d.MipLevels = 1;
        d.SampleDesc.Count = 1;
        d.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        if (heap == D3D12_HEAP_TYPE_DEFAULT) d.Flags = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
        ComPtr<ID3D12Resource> r;
        check(d3d->CreateCommittedResource(&properties, D3D12_HEAP_FLAG_NONE, &d, state, nullptr, IID_ID3D12Resource, &r),
             "CreateCommittedResource");
        return r;
    }

    ComPtr<ID3D12Resource> writable_buffer(UINT64 size) {
        return buffer(size, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
    }

    void transition(ID3D12Resource *r, D3D12_RESOURCE_STATES from, D3D12_RESOURCE_STATES to) {
        D3D12_RESOURCE_BARRIER b{};
        b.Transition = {r, 0, from, to};
        list->ResourceBarrier(1, &b);
    }

    // Drop the commands that a failed request has recorded, because they refer to buffers that are released.
    HRESULT discard() {
        list->Close();
        const HRESULT hr = allocator->Reset();
        return FAILED(hr) ? hr : list->Reset(allocator.Get(), nullptr);
    }

    // Execute the recorded commands, wait for their end, and begin a new list.
    void finish() {
        check(list->Close(), "CommandList::Close");
        ID3D12CommandList *lists[] = {list.Get()};
        queue->ExecuteCommandLists(1, lists);
        check(queue->Signal(fence.Get(), ++fence_value), "CommandQueue::Signal");
        check(fence->SetEventOnCompletion(fence_value, nullptr), "Fence::SetEventOnCompletion");  // without an event it waits
        check(allocator->Reset(), "CommandAllocator::Reset");
        check(list->Reset(allocator.Get(), nullptr), "CommandList::Reset");
        check(dml->GetDeviceRemovedReason(), "GetDeviceRemovedReason");
    }

    // Grow the descriptor heap. Only one dispatch runs at a time, so all dispatches share one heap.
    void reserve_descriptors(UINT count) {
        if (count <= heap_size) return;
        D3D12_DESCRIPTOR_HEAP_DESC d{D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, count, D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE, 0};
        heap_size = 0;
        check(d3d->CreateDescriptorHeap(&d, IID_ID3D12DescriptorHeap, &heap), "CreateDescriptorHeap");
        heap_size = count;
    }

    // Dispatch with these buffers. `record_copies` records the commands that follow the dispatch, before all are executed.
    template <class RecordCopies>
    void dispatch(IDMLDispatchable *dispatchable, const DML_BINDING_PROPERTIES &needs, const std::vector<DML_BUFFER_BINDING> &inputs,
                  const std::vector<DML_BUFFER_BINDING> &outputs, ID3D12Resource *persistent, RecordCopies record_copies) {
        const UINT count = std::max(needs.RequiredDescriptorCount, 1u);
        reserve_descriptors(count);
        list->SetDescriptorHeaps(1, heap.GetAddressOf());
        // The methods are GetCPUDescriptorHandleForHeapStart and GetGPUDescriptorHandleForHeapStart.
        DML_BINDING_TABLE_DESC t{dispatchable, heap_start<D3D12_CPU_DESCRIPTOR_HANDLE>(heap.Get(), 9),
                                 heap_start<D3D12_GPU_DESCRIPTOR_HANDLE>(heap.Get(), 10), count};
        ComPtr<IDMLBindingTable> table;
        check(dml->CreateBindingTable(&t, IID_IDMLBindingTable, &table), "CreateBindingTable");
        ComPtr<ID3D12Resource> temporary;
        if (needs.TemporaryResourceSize) {
            temporary = writable_buffer(needs.TemporaryResourceSize);
            table->BindTemporaryResource(binding_descs({{temporary.Get(), 0, needs.TemporaryResourceSize}}).data());
        }
        if (persistent) table->BindPersistentResource(binding_descs({{persistent, 0, needs.PersistentResourceSize}}).data());
        // The next three methods have no result: an error in them removes the device.
        if (!inputs.empty()) table->BindInputs(static_cast<UINT>(inputs.size()), binding_descs(inputs).data());
        check(dml->GetDeviceRemovedReason(), "BindInputs");
        if (!outputs.empty()) table->BindOutputs(static_cast<UINT>(outputs.size()), binding_descs(outputs).data());
        check(dml->GetDeviceRemovedReason(), "BindOutputs");
        recorder->RecordDispatch(list.Get(), dispatchable, table.Get());
        check(dml->GetDeviceRemovedReason(), "RecordDispatch");
        record_copies();
        finish();
    }

    // Return descriptions that point to `buffers`.
    static std::vector<DML_BINDING_DESC> binding_descs(const std::vector<DML_BUFFER_BINDING> &buffers) {
        std::vector<DML_BINDING_DESC> descs;
        for (const auto &each : buffers) descs.push_back({DML_BINDING_TYPE_BUFFER, &each});
        return descs;
    }

    ComPtr<IDMLOperator> create(const Desc &desc) {
        ComPtr<IDMLOperator> op;
        check(dml->CreateOperator(desc.desc, IID_IDMLOperator, &op), "CreateOperator");
        return op;
    }

    // Return a compiled operator; `key` is the content of its Image. Layers of a model often repeat an operator.
    const Compiled &compile_once(const Desc &desc, const std::string &key) {
        const auto entry = compiled.find(key);
        if (entry != compiled.end()) return entry->second;
        if (compiled.size() == 64) compiled.clear();  // bounds the memory that compiled operators hold
        return compiled[key] = compile(create(desc).Get());  // compiled before the key is added, so a failure adds none
    }

    Compiled compile(IDMLOperator *op) {
        Compiled c;
        check(dml->CompileOperator(op, DML_EXECUTION_FLAG_NONE, IID_IDMLCompiledOperator, &c.op), "CompileOperator");
        c.needs = binding_properties(c.op.Get());
        ComPtr<IDMLOperatorInitializer> initializer;
        check(dml->CreateOperatorInitializer(1, c.op.GetAddressOf(), IID_IDMLOperatorInitializer, &initializer), "CreateOperatorInitializer");
        std::vector<DML_BUFFER_BINDING> outputs;
        if (c.needs.PersistentResourceSize) {
            c.persistent = writable_buffer(c.needs.PersistentResourceSize);
            outputs.push_back({c.persistent.Get(), 0, c.needs.PersistentResourceSize});
        }
        dispatch(initializer.Get(), binding_properties(initializer.Get()), {}, outputs, nullptr, [] {});
        return c;
    }

    // Fill the buffers of the input and the outputs from `bytes`, run the operator, and return the content of the outputs.
    Bytes run(const Compiled &c, const unsigned char *bytes, UINT64 input_size, UINT64 byte_offset, std::vector<UINT64> sizes) {
        UINT64 output_size = 0, position = 0;
        for (UINT64 size : sizes) output_size += size;
        sizes.insert(sizes.begin(), input_size);
        auto upload = buffer(input_size + output_size, D3D12_HEAP_TYPE_UPLOAD, D3D12_RESOURCE_STATE_GENERIC_READ);
        auto readback = buffer(output_size, D3D12_HEAP_TYPE_READBACK, D3D12_RESOURCE_STATE_COPY_DEST);
        void *memory = nullptr;
        check(upload->Map(0, nullptr, &memory), "Map");
        memcpy(memory, bytes, input_size + output_size);
        upload->Unmap(0, nullptr);
        std::vector<ComPtr<ID3D12Resource>> resources;
        std::vector<DML_BUFFER_BINDING> inputs, outputs;
        for (UINT64 size : sizes) {
            const UINT64 offset = resources.empty() ? byte_offset : 0;
            auto *resource = resources.emplace_back(buffer(size, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_STATE_COPY_DEST)).Get();
            list->CopyBufferRegion(resource, 0, upload.Get(), position, size);
            transition(resource, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
            position += size;
            (inputs.empty() ? inputs : outputs).push_back({resource, offset, size - offset});
        }
        dispatch(c.op.Get(), c.needs, inputs, outputs, c.persistent.Get(), [&] {
            position = 0;
            for (const auto &output : outputs) {
                transition(output.Buffer, D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE);
                list->CopyBufferRegion(readback.Get(), position, output.Buffer, 0, output.SizeInBytes);
                position += output.SizeInBytes;
            }
        });
        check(readback->Map(0, nullptr, &memory), "Map");
        Bytes result(static_cast<unsigned char *>(memory), static_cast<unsigned char *>(memory) + output_size);
        readback->Unmap(0, nullptr);
        return result;
    }

    json facts(const std::vector<UINT32> &levels) {
        D3D12_FEATURE_DATA_SHADER_MODEL model{static_cast<D3D_SHADER_MODEL>(0x66)};
        check(d3d->CheckFeatureSupport(D3D12_FEATURE_SHADER_MODEL, &model, sizeof model), "CheckFeatureSupport");
        DML_FEATURE_QUERY_FEATURE_LEVELS query{static_cast<UINT>(levels.size()), reinterpret_cast<const DML_FEATURE_LEVEL *>(levels.data())};
        DML_FEATURE_DATA_FEATURE_LEVELS data{};
        check(dml->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof data, &data), "CheckFeatureSupport");
        const auto text = [](int major, int minor) { return std::to_string(major) + "." + std::to_string(minor); };
        return {{"adapter", adapter},
                {"shader_model", text(model.HighestShaderModel >> 4, model.HighestShaderModel & 15)},
                {"feature_level", text(data.MaxSupportedFeatureLevel >> 12, data.MaxSupportedFeatureLevel >> 8 & 15)}};
    }
};

// ---- files ---------------------------------------------------------------------------------------------------------

struct Unmap {
    size_t size;
    void operator()(unsigned char *memory) const { unix_function<int (UNIX *)(void *, size_t)>("munmap")(memory, size); }
};
using Mapping = std::unique_ptr<unsigned char, Unmap>;

// Map a file for reading, shared with its writer (1, MAP_SHARED) or not (2, MAP_PRIVATE).
static Mapping map_file(int descriptor, size_t size, int flags) {
    auto map = unix_function<void *(UNIX *)(void *, size_t, int, int, int, int64_t)>("mmap");
    size = std::max<size_t>(size, 1);  // mmap refuses a size of 0
    void *memory = map(nullptr, size, 1, flags, descriptor, 0);  // PROT_READ
    if (memory == reinterpret_cast<void *>(-1)) throw Failure("mmap", E_OUTOFMEMORY);
    return {static_cast<unsigned char *>(memory), Unmap{size}};
}

// A data file of a model. It is outside of the root folder, so the client passes it as an open file.
struct DataFile {
    int descriptor;

    DataFile() {
        char byte;
        struct { void *data; size_t size; } piece{&byte, 1};                     // iovec of <sys/socket.h>
        struct { size_t size; int level, type, descriptor, padding; } rights{};  // cmsghdr, with a descriptor as its data
        struct {                                                                 // msghdr
            void *name;
            uint32_t name_size;
            void *pieces;
            size_t piece_count;
            void *control;
            size_t control_size;
            int flags;
        } message{nullptr, 0, &piece, 1, &rights, sizeof rights, 0};
        auto receive = unix_function<int64_t (UNIX *)(int, void *, int)>("recvmsg");
        if (receive(atoi(getenv("SLICEPORT_SOCKET")), &message, 0) != 1 || message.flags & 8) throw Failure("recvmsg", E_FAIL);  // MSG_CTRUNC
        descriptor = rights.descriptor;
    }
    ~DataFile() { unix_function<int (UNIX *)(int)>("close")(descriptor); }
    DataFile(const DataFile &) = delete;
};

// Map the files of a request. All are received, even after a failure, or the next request would receive them.
static std::vector<Mapping> map_files(const json &files) {
    std::vector<Mapping> mappings;
    std::exception_ptr failure;
    for (const json &file : files) {
        try {
            const DataFile received;
            mappings.push_back(map_file(received.descriptor, file.at("size"), 2));
        } catch (...) {
            failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
    return mappings;
}

// ---- onnxruntime ---------------------------------------------------------------------------------------------------

struct DmlApi {  // the head of OrtDmlApi, whose own header wants more of the Windows SDK than mingw has
    OrtStatus *(*AppendByDeviceId)(OrtSessionOptions *, int);
    OrtStatus *(*AppendByDevice)(OrtSessionOptions *, IDMLDevice *, ID3D12CommandQueue *);
};

class Onnx {
    const DmlApi *dml = nullptr;
    Ort::Env env{nullptr};
    Ort::MemoryInfo memory{nullptr};

  public:
    std::string version;

    Onnx() {
        HMODULE module = LoadLibraryA("onnxruntime.dll");
        if (!module) throw Failure("LoadLibrary", E_FAIL, "onnxruntime.dll cannot be loaded");
        auto base = reinterpret_cast<const OrtApiBase *(*)()>(GetProcAddress(module, "OrtGetApiBase"))();
        version = base->GetVersionString();
        Ort::InitApi(base->GetApi(24));  // the first with Session_GetEpGraphAssignmentInfo
        env = Ort::Env(ORT_LOGGING_LEVEL_FATAL, "sliceport");
        memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
        Ort::ThrowOnError(Ort::GetApi().GetExecutionProviderApi("DML", 16, reinterpret_cast<const void **>(&dml)));
    }

    std::pair<json, Bytes> run(Device &device, const json &request, unsigned char *payload, const std::vector<Mapping> &files) try {
        Ort::Session session = create_session(device, request, payload, files);
        Ort::IoBinding binding(session);
        unsigned char *data = payload + request.at("model_size").get<size_t>();
        for (const json &input : request.at("inputs")) {
            binding.BindInput(input.at("name").get<std::string>().c_str(), tensor_of(input, data));
            data += input["size"].get<size_t>();
        }
        for (const std::string name : request.at("outputs")) binding.BindOutput(name.c_str(), memory);
        session.Run(Ort::RunOptions{nullptr}, binding);
        const auto outputs = binding.GetOutputValues();
        json header{{"outputs", json::array()}, {"nodes", assigned_nodes(session)}};
        Bytes bytes;
        for (const auto &output : outputs) {
            const auto info = output.GetTensorTypeAndShapeInfo();
            const auto element = info.GetElementType();
            if (element > ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) throw Failure("Run", E_NOTIMPL, "an output's element type cannot be sent");
            const size_t size = output.GetTensorSizeInBytes();
            const auto *content = static_cast<const unsigned char *>(output.GetTensorRawData());
            bytes.insert(bytes.end(), content, content + size);
            header["outputs"].push_back({{"shape", info.GetShape()}, {"element", static_cast<int>(element)}, {"size", size}});
        }
        return {header, bytes};
    } catch (const Ort::Exception &e) {
        throw Failure("Run", E_FAIL, e.what());
    }

  private:
    Ort::Session create_session(Device &device, const json &request, const unsigned char *model, const std::vector<Mapping> &files) try {
        Ort::SessionOptions options;
        options.DisableMemPattern().SetExecutionMode(ORT_SEQUENTIAL).SetGraphOptimizationLevel(ORT_DISABLE_ALL);
        for (const auto &entry : request.at("config").items()) options.AddConfigEntry(entry.key().c_str(), entry.value().get<std::string>().c_str());
        Ort::ThrowOnError(dml->AppendByDevice(options, device.dml.Get(), device.queue.Get()));
        // onnxruntime copies weights once if it gets them by their names, and twice if it gets their files.
        std::vector<std::string> names;
        std::vector<Ort::Value> weights;
        for (const json &weight : request.at("weights")) {
            names.push_back(weight.at("name"));
            weights.push_back(tensor_of(weight, files.at(weight.at("file")).get() + weight.at("offset").get<size_t>()));
        }
        if (!names.empty()) options.AddExternalInitializers(names, weights);
        return Ort::Session(env, model, request.at("model_size").get<size_t>(), options);
    } catch (const Ort::Exception &e) {
        throw Failure("CreateSession", E_FAIL, e.what());
    }

    // Return a tensor, as a request describes it, whose content stays in place.
    Ort::Value tensor_of(const json &tensor, void *content) const {
        const std::vector<int64_t> shape = tensor.at("shape");
        const auto element = static_cast<ONNXTensorElementDataType>(tensor.at("element").get<int>());
        return Ort::Value::CreateTensor(memory, content, tensor.at("size").get<size_t>(), shape.data(), shape.size(), element);
    }

    // Call a function of OrtApi by its position there, because Debian's header may be older than the function.
    template <class... Arguments> static void call(size_t position, Arguments... arguments) {
        const auto function = reinterpret_cast<OrtStatus *(*const *)(Arguments...)>(&Ort::GetApi())[position];
        Ort::ThrowOnError(function(arguments...));
    }

    // Return the name, the operator type and the provider of each node before DirectML's graph fusion.
    static json assigned_nodes(const Ort::Session &session) {
        json result = json::array();
        const void *const *graphs, *const *nodes;
        const char *provider, *name, *op_type;
        size_t graph_count, node_count;
        call(407, static_cast<const OrtSession *>(session), &graphs, &graph_count);  // Session_GetEpGraphAssignmentInfo
        for (size_t i = 0; i < graph_count; ++i) {
            call(408, graphs[i], &provider);             // EpAssignedSubgraph_GetEpName
            call(409, graphs[i], &nodes, &node_count);  // EpAssignedSubgraph_GetNodes
            for (size_t k = 0; k < node_count; ++k) {
                call(410, nodes[k], &name);     // EpAssignedNode_GetName
                call(412, nodes[k], &op_type);  // EpAssignedNode_GetOperatorType
                result.push_back({name, op_type, provider});
            }
        }
        return result;
    }
};

// ---- the pipe ------------------------------------------------------------------------------------------------------

static void answer(FILE *out, const json &header, const Bytes &payload) {
    const std::string text = header.dump(-1, ' ', true, json::error_handler_t::replace);
    const UINT32 header_size = static_cast<UINT32>(text.size());
    const UINT64 payload_size = payload.size();
    fwrite(&header_size, 4, 1, out);
    fwrite(&payload_size, 8, 1, out);
    fwrite(text.data(), 1, text.size(), out);
    const size_t piece = 64 << 10;  // Wine looks at the whole buffer in every call, so a single call takes quadratic time
    for (size_t i = 0; i < payload.size(); i += piece) fwrite(payload.data() + i, 1, std::min(piece, payload.size() - i), out);
    fflush(out);
}

static json failure(const std::string &call, HRESULT hresult, const char *message) {
    return {{"error", {{"call", call}, {"hresult", static_cast<UINT32>(hresult)}, {"message", message}}}};
}

int main() {
    // Answers go to a copy of stdout; stdout itself becomes stderr, so that no library can write into a frame.
    _setmode(_fileno(stdin), _O_BINARY);
    FILE *out = _fdopen(_dup(_fileno(stdout)), "wb");
    _setmode(_fileno(out), _O_BINARY);
    _dup2(_fileno(stderr), _fileno(stdout));
    std::unique_ptr<Device> device;
    std::unique_ptr<Onnx> onnx;
    const size_t max_payload = 8ull << 30;
    // The client puts payloads into one file, which is mapped once: addresses may reach beyond its end.
    const Mapping memory = map_file(atoi(getenv("SLICEPORT_MEMORY")), max_payload, 1);
    unsigned char *payload = memory.get();
    UINT32 header_size;
    UINT64 payload_size;
    while (fread(&header_size, 4, 1, stdin) && fread(&payload_size, 8, 1, stdin)) {
        if (header_size > (64u << 20) || payload_size > max_payload) return 3;  // not a frame of the client: give up
        std::string text(header_size, 0);
        if (fread(text.data(), 1, header_size, stdin) < header_size) return 2;
        json result = json::object();
        Bytes reply;
        try {
            const json request = json::parse(text);
            const std::string action = request.at("do");
            const std::vector<Mapping> files = map_files(request.value("files", json::array()));
            if (!device) device = std::make_unique<Device>();
            if (!onnx && (action == "facts" || action == "onnx")) onnx = std::make_unique<Onnx>();
            if (action == "facts") {
                result = device->facts(request.at("levels"));
                result["onnxruntime"] = onnx->version;
            } else if (action == "create") {
                device->create(Desc(request.at("operator"), payload));
            } else if (action == "run") {
                const size_t size = request.at("operator").at("size");
                const std::string key(reinterpret_cast<const char *>(payload), size);
                const Compiled &compiled = device->compile_once(Desc(request["operator"], payload), key);
                reply = device->run(compiled, payload + size, request.at("input"), request.at("offset"), request.at("outputs"));
            } else if (action == "onnx") {
                std::tie(result, reply) = onnx->run(*device, request, payload, files);
            } else {
                throw std::invalid_argument("request " + action + " is not known");
            }
        } catch (const Failure &f) {
            result = failure(f.call, f.hresult, f.what());
        } catch (const std::bad_alloc &) {
            result = failure("new", E_OUTOFMEMORY, "out of memory");
        } catch (const std::exception &e) {
            result = failure("request", E_INVALIDARG, e.what());
        }
        // After a failure, recorded commands are dropped. The next request creates a new device if this one is lost.
        if (result.contains("error") && device && (FAILED(device->dml->GetDeviceRemovedReason()) || FAILED(device->discard()))) device.reset();
        answer(out, result, reply);
    }
    return 0;
}
