// The host program: DirectML and onnxruntime's DirectML provider behind a pipe.
//
// It reads requests from stdin and writes one answer each to stdout, both as frames (see protocol.py):
//   u32 header bytes, u64 payload bytes, the header (JSON), the payload (tensor bytes, concatenated).
// Under Wine the payload of a request is not in the pipe but in memory that the client shares (see shared_memory).
// The answer to a failed call is {"error": {"call", "hresult", "message"}}; only a closed pipe ends the process.
//
// Requests by "do":
//   facts                                                 versions, adapter, feature level
//   create  operator                                      CreateOperator alone
//   run     operator, input, outputs                      create, compile, initialise, run; operators are kept compiled
//   onnx    model, weights, inputs, outputs, fallback,    a model on the DirectML provider; with trace, the provider of
//           fusion, trace                                 each node, and with fusion off, of each single node. The model
//                                                         refers to its weights as an external data file `weights`
// An operator is an Image of abi.py, whose numbers are passed to DirectML unchecked, wrong ones too.

#include <windows.h>

#include <initguid.h>

#include <directx/d3d12.h>
#include <dxgi1_6.h>
#include <fcntl.h>
#include <io.h>

#include <directx/DirectML.h>
#include <nlohmann/json.hpp>
#include <onnxruntime/onnxruntime_c_api.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guids.h"
#include "native_vkd3d.h"

using nlohmann::json;
using Bytes = std::vector<unsigned char>;

// The bytes that follow a request's header.
struct Payload {
    const unsigned char *data;
    size_t size;
};

struct Failure : std::runtime_error {
    HRESULT hresult;
    std::string call;
    Failure(std::string c, HRESULT h, const std::string &message = "") : std::runtime_error(message), hresult(h), call(std::move(c)) {}
};

static void must(HRESULT hr, const char *call) {
    if (FAILED(hr)) throw Failure(call, hr);
}

// A COM object that releases itself.
template <class T> class Com {
    T *p = nullptr;

  public:
    Com() = default;
    Com(const Com &) = delete;
    Com &operator=(const Com &) = delete;
    Com(Com &&o) noexcept : p(o.p) { o.p = nullptr; }
    Com &operator=(Com &&o) noexcept {
        std::swap(p, o.p);
        return *this;
    }
    ~Com() {
        if (p) p->Release();
    }
    T **put() {
        if (p) p->Release();
        p = nullptr;
        return &p;
    }
    void **raw() { return reinterpret_cast<void **>(put()); }
    T *get() const { return p; }
    T *operator->() const { return p; }
    explicit operator bool() const { return p != nullptr; }
};

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

// Wine's device answers EnumerateMetaCommands with E_NOTIMPL, and DirectML then fails; the right answer is a count of 0.
static HRESULT STDMETHODCALLTYPE no_meta_commands(ID3D12Device5 *, UINT *count, D3D12_META_COMMAND_DESC *) {
    if (count) *count = 0;
    return S_OK;
}

static void answer_meta_commands(ID3D12Device *device) {
    Com<ID3D12Device5> device5;
    if (FAILED(device->QueryInterface(IID_ID3D12Device5, device5.raw()))) return;
    UINT count = 0;
    if (device5->EnumerateMetaCommands(&count, nullptr) != E_NOTIMPL) return;
    const int slot = 59;  // EnumerateMetaCommands
    void **table = *reinterpret_cast<void ***>(device5.get());
    DWORD before;
    VirtualProtect(table + slot, sizeof(void *), PAGE_EXECUTE_READWRITE, &before);
    table[slot] = reinterpret_cast<void *>(no_meta_commands);
    VirtualProtect(table + slot, sizeof(void *), before, &before);
}

// Compilers return structs from methods in different ways, so call these methods through the table of virtual functions,
// with the hidden pointer to the result as an argument.
static DML_BINDING_PROPERTIES properties(IDMLDispatchable *d) {
    DML_BINDING_PROPERTIES p{};
    using Call = void *(STDMETHODCALLTYPE *)(IDMLDispatchable *, DML_BINDING_PROPERTIES *);
    reinterpret_cast<Call>((*reinterpret_cast<void ***>(d))[8])(d, &p);
    return p;
}

template <class Handle> static Handle heap_start(ID3D12DescriptorHeap *heap, int slot) {
    Handle h{};
    using Call = void *(STDMETHODCALLTYPE *)(ID3D12DescriptorHeap *, Handle *);
    reinterpret_cast<Call>((*reinterpret_cast<void ***>(heap))[slot])(heap, &h);
    return h;
}

struct Compiled {
    Com<IDMLCompiledOperator> op;
    Com<ID3D12Resource> persistent;
    DML_BINDING_PROPERTIES needs{};
};

// Return the name of Vulkan's device under Wine, because Wine invents the name of the DXGI adapter. Empty elsewhere.
static std::string vulkan_device() {
    struct InstanceCreateInfo {  // VkInstanceCreateInfo; no Vulkan headers are needed for these few calls
        UINT32 type;
        const void *next;
        UINT32 flags;
        const void *application;
        UINT32 layer_count;
        const char *const *layers;
        UINT32 extension_count;
        const char *const *extensions;
    };
    using CreateInstance = INT32(WINAPI *)(const InstanceCreateInfo *, const void *, void **);
    using EnumerateDevices = INT32(WINAPI *)(void *, UINT32 *, void **);
    using GetProperties = void(WINAPI *)(void *, void *);
    using DestroyInstance = void(WINAPI *)(void *, const void *);
    HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    if (!ntdll || !GetProcAddress(ntdll, "wine_get_version")) return "";
    HMODULE vulkan = LoadLibraryA("vulkan-1.dll");
    if (!vulkan) return "";
    auto create = reinterpret_cast<CreateInstance>(GetProcAddress(vulkan, "vkCreateInstance"));
    auto enumerate = reinterpret_cast<EnumerateDevices>(GetProcAddress(vulkan, "vkEnumeratePhysicalDevices"));
    auto properties_of = reinterpret_cast<GetProperties>(GetProcAddress(vulkan, "vkGetPhysicalDeviceProperties"));
    auto destroy = reinterpret_cast<DestroyInstance>(GetProcAddress(vulkan, "vkDestroyInstance"));
    InstanceCreateInfo info{};
    info.type = 1;  // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
    void *instance = nullptr, *device = nullptr;
    if (!create || !enumerate || !properties_of || !destroy || create(&info, nullptr, &instance)) return "";
    UINT32 count = 1;
    INT32 result = enumerate(instance, &count, &device);
    std::string name;
    if (result >= 0 && count) {
        alignas(8) unsigned char properties[4096]{};  // VkPhysicalDeviceProperties: deviceType at 16, deviceName at 20
        properties_of(device, properties);
        UINT32 kind;
        memcpy(&kind, properties + 16, sizeof kind);
        for (const unsigned char *c = properties + 20; *c && c < properties + 276; c++) name += *c < 128 ? static_cast<char>(*c) : '?';
        name += kind == 4 ? ", software on the CPU" : ", by Wine and Vulkan";  // VK_PHYSICAL_DEVICE_TYPE_CPU
    }
    destroy(instance, nullptr);
    return name;
}

struct Device {
    Com<ID3D12Device> d3d;
    Com<IDMLDevice> dml;
    Com<ID3D12CommandQueue> queue;
    Com<ID3D12CommandAllocator> allocator;
    Com<ID3D12GraphicsCommandList> list;
    Com<ID3D12Fence> fence;
    Com<IDMLCommandRecorder> recorder;
    Com<ID3D12DescriptorHeap> heap;
    UINT heap_size = 0;
    UINT64 fence_value = 0;
    std::string adapter;
    LUID luid{};
    std::list<std::string> recent;  // keys of `compiled`, the latest first
    std::map<std::string, std::unique_ptr<Compiled>> compiled;

    Device() {
        HMODULE d3d12 = LoadLibraryA("d3d12.dll"), directml = LoadLibraryA("DirectML.dll"), dxgi = LoadLibraryA("dxgi.dll");
        if (!d3d12 || !directml) throw Failure("LoadLibrary", E_FAIL, d3d12 ? "DirectML.dll cannot be loaded" : "d3d12.dll cannot be loaded");
        using CreateDevice = HRESULT(WINAPI *)(IUnknown *, D3D_FEATURE_LEVEL, REFIID, void **);
        using CreateDml = HRESULT(WINAPI *)(ID3D12Device *, DML_CREATE_DEVICE_FLAGS, DML_FEATURE_LEVEL, REFIID, void **);
        using CreateFactory = HRESULT(WINAPI *)(REFIID, void **);
        auto create = reinterpret_cast<CreateDevice>(GetProcAddress(d3d12, "D3D12CreateDevice"));
        auto create_dml = reinterpret_cast<CreateDml>(GetProcAddress(directml, "DMLCreateDevice1"));
        Com<IDXGIFactory1> factory;
        Com<IDXGIAdapter> first;
        auto create_factory = reinterpret_cast<CreateFactory>(GetProcAddress(dxgi, "CreateDXGIFactory1"));
        if (create_factory && SUCCEEDED(create_factory(IID_IDXGIFactory1, factory.raw())) && SUCCEEDED(factory->EnumAdapters(0, first.put()))) {
            DXGI_ADAPTER_DESC d{};
            if (SUCCEEDED(first->GetDesc(&d))) {
                luid = d.AdapterLuid;
                for (const WCHAR *c = d.Description; *c; c++) adapter += *c < 128 ? static_cast<char>(*c) : '?';
            }
        }
        const std::string vulkan = vulkan_device();
        if (!vulkan.empty()) adapter = vulkan;
        HRESULT hr = create_native_device(d3d.raw(), luid);
        if (hr == E_NOTIMPL) hr = create(nullptr, D3D_FEATURE_LEVEL_11_0, IID_ID3D12Device, d3d.raw());
        must(hr, "D3D12CreateDevice");
        answer_meta_commands(d3d.get());
        must(create_dml(d3d.get(), DML_CREATE_DEVICE_FLAG_NONE, DML_FEATURE_LEVEL_1_0, IID_IDMLDevice, dml.raw()), "DMLCreateDevice1");
        D3D12_COMMAND_QUEUE_DESC q{};
        q.Type = D3D12_COMMAND_LIST_TYPE_DIRECT;
        must(d3d->CreateCommandQueue(&q, IID_ID3D12CommandQueue, queue.raw()), "CreateCommandQueue");
        must(d3d->CreateCommandAllocator(q.Type, IID_ID3D12CommandAllocator, allocator.raw()), "CreateCommandAllocator");
        must(d3d->CreateCommandList(0, q.Type, allocator.get(), nullptr, IID_ID3D12GraphicsCommandList, list.raw()), "CreateCommandList");
        must(d3d->CreateFence(0, D3D12_FENCE_FLAG_NONE, IID_ID3D12Fence, fence.raw()), "CreateFence");
        must(dml->CreateCommandRecorder(IID_IDMLCommandRecorder, recorder.raw()), "CreateCommandRecorder");
    }

    Com<ID3D12Resource> buffer(UINT64 size, D3D12_HEAP_TYPE heap, D3D12_RESOURCE_STATES state) {
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
        Com<ID3D12Resource> r;
        must(d3d->CreateCommittedResource(&properties, D3D12_HEAP_FLAG_NONE, &d, state, nullptr, IID_ID3D12Resource, r.raw()),
             "CreateCommittedResource");
        return r;
    }

    void transition(ID3D12Resource *r, D3D12_RESOURCE_STATES from, D3D12_RESOURCE_STATES to) {
        D3D12_RESOURCE_BARRIER b{};
        b.Transition = {r, 0, from, to};
        list->ResourceBarrier(1, &b);
    }

    // Drop the commands that a failed request has recorded: they refer to buffers that are released.
    HRESULT discard() {
        list->Close();
        const HRESULT hr = allocator->Reset();
        return FAILED(hr) ? hr : list->Reset(allocator.get(), nullptr);
    }

    void finish() {
        must(list->Close(), "CommandList::Close");
        ID3D12CommandList *lists[] = {list.get()};
        queue->ExecuteCommandLists(1, lists);
        must(queue->Signal(fence.get(), ++fence_value), "CommandQueue::Signal");
        HANDLE event = CreateEventA(nullptr, FALSE, FALSE, nullptr);
        HRESULT hr = fence->SetEventOnCompletion(fence_value, event);
        if (SUCCEEDED(hr)) WaitForSingleObject(event, INFINITE);
        CloseHandle(event);
        must(hr, "Fence::SetEventOnCompletion");
        must(allocator->Reset(), "CommandAllocator::Reset");
        must(list->Reset(allocator.get(), nullptr), "CommandList::Reset");
        must(dml->GetDeviceRemovedReason(), "GetDeviceRemovedReason");
    }

    // Grow the descriptor heap. Only one dispatch runs at a time, so all dispatches share one heap.
    void reserve_descriptors(UINT count) {
        if (count <= heap_size) return;
        D3D12_DESCRIPTOR_HEAP_DESC d{D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV, count, D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE, 0};
        heap_size = 0;
        must(d3d->CreateDescriptorHeap(&d, IID_ID3D12DescriptorHeap, heap.raw()), "CreateDescriptorHeap");
        heap_size = count;
    }

    // Record one dispatch and bind its resources; `during` and `table` must live until it has run.
    void dispatch(IDMLDispatchable *what, const DML_BINDING_PROPERTIES &needs, const std::vector<DML_BINDING_DESC> *inputs,
                  const std::vector<DML_BINDING_DESC> &outputs, ID3D12Resource *persistent, std::deque<Com<ID3D12Resource>> &during,
                  Com<IDMLBindingTable> &table) {
        UINT count = needs.RequiredDescriptorCount ? needs.RequiredDescriptorCount : 1;
        reserve_descriptors(count);
        ID3D12DescriptorHeap *all[] = {heap.get()};
        list->SetDescriptorHeaps(1, all);
        DML_BINDING_TABLE_DESC t{what, heap_start<D3D12_CPU_DESCRIPTOR_HANDLE>(heap.get(), 9),
                                 heap_start<D3D12_GPU_DESCRIPTOR_HANDLE>(heap.get(), 10), count};
        must(dml->CreateBindingTable(&t, IID_IDMLBindingTable, table.raw()), "CreateBindingTable");
        if (needs.TemporaryResourceSize) {
            auto &temporary = during.emplace_back(
                buffer(needs.TemporaryResourceSize, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_STATE_UNORDERED_ACCESS));
            DML_BUFFER_BINDING b{temporary.get(), 0, needs.TemporaryResourceSize};
            DML_BINDING_DESC bound{DML_BINDING_TYPE_BUFFER, &b};
            table->BindTemporaryResource(&bound);
        }
        if (persistent) {
            DML_BUFFER_BINDING b{persistent, 0, needs.PersistentResourceSize};
            DML_BINDING_DESC bound{DML_BINDING_TYPE_BUFFER, &b};
            table->BindPersistentResource(&bound);
        }
        // The next three methods have no result: an error in them removes the device.
        if (inputs) table->BindInputs(static_cast<UINT>(inputs->size()), inputs->data());
        must(dml->GetDeviceRemovedReason(), "BindInputs");
        if (!outputs.empty()) table->BindOutputs(static_cast<UINT>(outputs.size()), outputs.data());
        must(dml->GetDeviceRemovedReason(), "BindOutputs");
        recorder->RecordDispatch(list.get(), what, table.get());
        must(dml->GetDeviceRemovedReason(), "RecordDispatch");
    }

    Com<IDMLOperator> create(const Desc &desc) {
        Com<IDMLOperator> op;
        must(dml->CreateOperator(desc.desc, IID_IDMLOperator, op.raw()), "CreateOperator");
        return op;
    }

    Compiled &ready(const Desc &desc, const std::string &key) {
        auto found = compiled.find(key);
        if (found != compiled.end()) {
            recent.remove(key);
            recent.push_front(key);
            return *found->second;
        }
        auto fresh = std::make_unique<Compiled>();
        compile(create(desc).get(), *fresh);
        if (recent.size() >= 64) {
            compiled.erase(recent.back());
            recent.pop_back();
        }
        recent.push_front(key);
        return *(compiled[key] = std::move(fresh));
    }

    void compile(IDMLOperator *op, Compiled &c) {
        must(dml->CompileOperator(op, DML_EXECUTION_FLAG_NONE, IID_IDMLCompiledOperator, c.op.raw()), "CompileOperator");
        c.needs = properties(c.op.get());
        initialize(c);
    }

    void initialize(Compiled &c) {
        IDMLCompiledOperator *ops[] = {c.op.get()};
        Com<IDMLOperatorInitializer> initializer;
        must(dml->CreateOperatorInitializer(1, ops, IID_IDMLOperatorInitializer, initializer.raw()), "CreateOperatorInitializer");
        if (c.needs.PersistentResourceSize)
            c.persistent = buffer(c.needs.PersistentResourceSize, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
        DML_BUFFER_BINDING b{c.persistent.get(), 0, c.needs.PersistentResourceSize};
        std::vector<DML_BINDING_DESC> outputs;
        if (c.persistent) outputs.push_back({DML_BINDING_TYPE_BUFFER, &b});
        std::deque<Com<ID3D12Resource>> during;
        Com<IDMLBindingTable> table;
        dispatch(initializer.get(), properties(initializer.get()), nullptr, outputs, nullptr, during, table);
        finish();
    }

    // Fill the buffers of the input and the outputs from `bytes`, run, and return the outputs' bytes.
    Bytes run(const Compiled &c, const Payload &bytes, UINT64 input_size, UINT64 byte_offset, const std::vector<UINT64> &output_sizes) {
        std::vector<UINT64> sizes{input_size};
        sizes.insert(sizes.end(), output_sizes.begin(), output_sizes.end());
        UINT64 total = 0;
        for (UINT64 size : sizes) {
            if (size == 0 || size % 4) throw std::invalid_argument("a buffer needs a size that is a multiple of 4");
            total += size;
        }
        if (total != bytes.size) throw std::invalid_argument("the payload is not as long as the buffers");
        auto upload = buffer(total, D3D12_HEAP_TYPE_UPLOAD, D3D12_RESOURCE_STATE_GENERIC_READ);
        auto readback = buffer(total - input_size, D3D12_HEAP_TYPE_READBACK, D3D12_RESOURCE_STATE_COPY_DEST);
        void *memory = nullptr;
        must(upload->Map(0, nullptr, &memory), "Map");
        memcpy(memory, bytes.data, total);
        upload->Unmap(0, nullptr);
        std::vector<Com<ID3D12Resource>> resources;
        std::deque<DML_BUFFER_BINDING> buffers;
        std::vector<DML_BINDING_DESC> inputs, outputs;
        UINT64 at = 0;
        for (UINT64 size : sizes) {
            const UINT64 offset = resources.empty() ? byte_offset : 0;
            auto *resource = resources.emplace_back(buffer(size, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_STATE_COPY_DEST)).get();
            list->CopyBufferRegion(resource, 0, upload.get(), at, size);
            transition(resource, D3D12_RESOURCE_STATE_COPY_DEST, D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
            at += size;
            buffers.push_back({resource, offset, size - offset});
            (inputs.empty() ? inputs : outputs).push_back({DML_BINDING_TYPE_BUFFER, &buffers.back()});
        }
        std::deque<Com<ID3D12Resource>> during;
        Com<IDMLBindingTable> table;
        dispatch(c.op.get(), c.needs, &inputs, outputs, c.persistent.get(), during, table);
        at = 0;
        for (size_t i = 1; i < sizes.size(); i++) {
            transition(resources[i].get(), D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_STATE_COPY_SOURCE);
            list->CopyBufferRegion(readback.get(), at, resources[i].get(), 0, sizes[i]);
            at += sizes[i];
        }
        finish();
        must(readback->Map(0, nullptr, &memory), "Map");
        Bytes result(static_cast<unsigned char *>(memory), static_cast<unsigned char *>(memory) + at);
        readback->Unmap(0, nullptr);
        return result;
    }

    json facts() {
        json f;
        f["adapter"] = adapter;
        D3D12_FEATURE_DATA_SHADER_MODEL model{static_cast<D3D_SHADER_MODEL>(0x66)};
        if (SUCCEEDED(d3d->CheckFeatureSupport(D3D12_FEATURE_SHADER_MODEL, &model, sizeof model)))
            f["shader_model"] = std::to_string(model.HighestShaderModel >> 4) + "." + std::to_string(model.HighestShaderModel & 15);
        DML_FEATURE_LEVEL levels[] = {DML_FEATURE_LEVEL_1_0, DML_FEATURE_LEVEL_2_0, DML_FEATURE_LEVEL_2_1, DML_FEATURE_LEVEL_3_0,
                                      DML_FEATURE_LEVEL_3_1, DML_FEATURE_LEVEL_4_0, DML_FEATURE_LEVEL_4_1, DML_FEATURE_LEVEL_5_0,
                                      DML_FEATURE_LEVEL_5_1, DML_FEATURE_LEVEL_5_2, DML_FEATURE_LEVEL_6_0, DML_FEATURE_LEVEL_6_1,
                                      DML_FEATURE_LEVEL_6_2, DML_FEATURE_LEVEL_6_3, DML_FEATURE_LEVEL_6_4};
        DML_FEATURE_QUERY_FEATURE_LEVELS query{15, levels};
        DML_FEATURE_DATA_FEATURE_LEVELS data{};
        must(dml->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query, &query, sizeof data, &data), "CheckFeatureSupport");
        f["feature_level"] = std::to_string(data.MaxSupportedFeatureLevel >> 12) + "." + std::to_string(data.MaxSupportedFeatureLevel >> 8 & 15);
        return f;
    }
};

// ---- onnxruntime ---------------------------------------------------------------------------------------------------

struct DmlApi {  // the head of OrtDmlApi, whose own header wants more of the Windows SDK than mingw has
    OrtStatus *(*AppendByDeviceId)(OrtSessionOptions *, int);
    OrtStatus *(*AppendByDevice)(OrtSessionOptions *, IDMLDevice *, ID3D12CommandQueue *);
};

class Onnx {
    const OrtApi *api = nullptr;
    const DmlApi *dml = nullptr;
    OrtEnv *env = nullptr;

    void ok(OrtStatus *status, const char *call) {
        if (!status) return;
        std::string message = api->GetErrorMessage(status);
        api->ReleaseStatus(status);
        throw Failure(call, E_FAIL, message);
    }

    // Return the name, operator and provider of each node that ran, from onnxruntime's profile.
    json nodes_run(OrtSession *session) {
        OrtAllocator *allocator = nullptr;
        ok(api->GetAllocatorWithDefaultOptions(&allocator), "GetAllocatorWithDefaultOptions");
        char *name = nullptr;
        ok(api->SessionEndProfiling(session, allocator, &name), "SessionEndProfiling");
        const std::string path = name;
        ok(api->AllocatorFree(allocator, name), "AllocatorFree");
        FILE *file = fopen(path.c_str(), "rb");
        if (!file) throw Failure("SessionEndProfiling", E_FAIL, "the profile cannot be read");
        const json events = json::parse(file, nullptr, false);
        fclose(file);
        remove(path.c_str());
        json nodes = json::array();
        for (auto &e : events) {
            const std::string event = e.value("name", ""), suffix = "_kernel_time";
            if (e.value("cat", "") != "Node" || event.size() <= suffix.size() || event.substr(event.size() - suffix.size()) != suffix) continue;
            nodes.push_back({{"name", event.substr(0, event.size() - suffix.size())},
                             {"op_type", e["args"].value("op_name", "")},
                             {"provider", e["args"].value("provider", "")}});
        }
        return nodes;
    }

  public:
    std::string version;

    Onnx() {
        HMODULE module = LoadLibraryA("onnxruntime.dll");
        if (!module) throw Failure("LoadLibrary", E_FAIL, "onnxruntime.dll cannot be loaded");
        auto base = reinterpret_cast<const OrtApiBase *(*)()>(GetProcAddress(module, "OrtGetApiBase"));
        version = base()->GetVersionString();
        api = base()->GetApi(18);
        if (!api) throw Failure("OrtGetApiBase", E_FAIL, "onnxruntime.dll is too old");
        ok(api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "sliceport", &env), "CreateEnv");
        ok(api->GetExecutionProviderApi("DML", 16, reinterpret_cast<const void **>(&dml)), "GetExecutionProviderApi");
    }

    std::pair<json, Bytes> run(Device &device, const json &request, const Payload &payload) {
        OrtSessionOptions *options = nullptr;
        ok(api->CreateSessionOptions(&options), "CreateSessionOptions");
        std::unique_ptr<OrtSessionOptions, void (*)(OrtSessionOptions *)> free_options(options, api->ReleaseSessionOptions);
        ok(api->DisableMemPattern(options), "DisableMemPattern");
        ok(api->SetSessionExecutionMode(options, ORT_SEQUENTIAL), "SetSessionExecutionMode");
        ok(api->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL), "SetSessionGraphOptimizationLevel");
        if (!request.value("fallback", false))
            ok(api->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"), "AddSessionConfigEntry");
        if (!request.value("fusion", true))
            ok(api->AddSessionConfigEntry(options, "ep.dml.disable_graph_fusion", "1"), "AddSessionConfigEntry");
        const bool trace = request.value("trace", false);
        if (trace) {
            wchar_t folder[MAX_PATH + 1] = L"";
            GetTempPathW(MAX_PATH + 1, folder);
            const std::wstring prefix = std::wstring(folder) + L"sliceport" + std::to_wstring(GetCurrentProcessId());
            ok(api->EnableProfiling(options, prefix.c_str()), "EnableProfiling");
        }
        ok(dml->AppendByDevice(options, device.dml.get(), device.queue.get()), "SessionOptionsAppendExecutionProvider_DML1");
        const size_t model_size = request.at("model_size"), weights_size = request.value("weights_size", size_t(0));
        if (model_size > payload.size || weights_size > payload.size - model_size) throw std::invalid_argument("the payload is shorter than the model");
        const wchar_t *weights_name = L"weights";
        char *weights = reinterpret_cast<char *>(const_cast<unsigned char *>(payload.data)) + model_size;
        if (weights_size)
            ok(api->AddExternalInitializersFromFilesInMemory(options, &weights_name, &weights, &weights_size, 1), "AddExternalInitializers");
        OrtSession *session = nullptr;
        ok(api->CreateSessionFromArray(env, payload.data, model_size, options, &session), "CreateSession");
        std::unique_ptr<OrtSession, void (*)(OrtSession *)> free_session(session, api->ReleaseSession);
        OrtMemoryInfo *memory = nullptr;
        ok(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory), "CreateCpuMemoryInfo");
        std::unique_ptr<OrtMemoryInfo, void (*)(OrtMemoryInfo *)> free_memory(memory, api->ReleaseMemoryInfo);
        std::vector<std::string> names;
        for (const char *kind : {"inputs", "outputs"})
            for (auto &v : request.at(kind)) names.push_back(kind[0] == 'i' ? v.at("name").get<std::string>() : v.get<std::string>());
        const size_t input_count = request["inputs"].size(), output_count = request["outputs"].size();
        std::vector<OrtValue *> values(input_count + output_count, nullptr);
        struct Free {
            const OrtApi *api;
            std::vector<OrtValue *> &values;
            ~Free() {
                for (auto *v : values)
                    if (v) api->ReleaseValue(v);
            }
        } free_values{api, values};
        size_t at = model_size + weights_size;
        std::vector<const char *> pointers;
        for (auto &n : names) pointers.push_back(n.c_str());
        for (size_t i = 0; i < input_count; i++) {
            const json &v = request["inputs"][i];
            const size_t size = v.at("size");
            const std::vector<int64_t> shape = v.at("shape");
            if (size > payload.size - at) throw std::invalid_argument("the payload is shorter than the inputs");
            ok(api->CreateTensorWithDataAsOrtValue(memory, const_cast<unsigned char *>(payload.data) + at, size, shape.data(), shape.size(),
                                                   static_cast<ONNXTensorElementDataType>(v.at("element").get<int>()), &values[i]),
               "CreateTensor");
            at += size;
        }
        ok(api->Run(session, nullptr, pointers.data(), values.data(), input_count, pointers.data() + input_count, output_count,
                    values.data() + input_count),
           "Run");
        json header;
        Bytes bytes;
        if (trace) header["nodes"] = nodes_run(session);
        header["outputs"] = json::array();
        for (size_t i = 0; i < output_count; i++) {
            OrtTensorTypeAndShapeInfo *info = nullptr;
            ok(api->GetTensorTypeAndShape(values[input_count + i], &info), "GetTensorTypeAndShape");
            std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo *)> free_info(info, api->ReleaseTensorTypeAndShapeInfo);
            size_t rank = 0, elements = 0;
            ONNXTensorElementDataType element;
            ok(api->GetDimensionsCount(info, &rank), "GetDimensionsCount");
            std::vector<int64_t> shape(rank);
            ok(api->GetDimensions(info, shape.data(), rank), "GetDimensions");
            ok(api->GetTensorElementType(info, &element), "GetTensorElementType");
            ok(api->GetTensorShapeElementCount(info, &elements), "GetTensorShapeElementCount");
            static const int widths[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
            const int width = element < 17 ? widths[element] : 0;
            if (!width) throw Failure("Run", E_NOTIMPL, "an output's element type cannot be sent");
            const size_t size = elements * width;
            unsigned char *data = nullptr;
            if (size) ok(api->GetTensorMutableData(values[input_count + i], reinterpret_cast<void **>(&data)), "GetTensorMutableData");
            bytes.insert(bytes.end(), data, data + size);
            header["outputs"].push_back({{"shape", shape}, {"element", static_cast<int>(element)}, {"size", size}});
        }
        return {header, bytes};
    }
};

// ---- the pipe ------------------------------------------------------------------------------------------------------

// Wine looks at the whole buffer in every call, so one call for a large buffer takes time quadratic in its size.
const size_t piece = 64 << 10;

static bool read_exactly(void *into, size_t size) {
    for (size_t at = 0, n; at < size; at += n)
        if (!(n = fread(static_cast<char *>(into) + at, 1, std::min(piece, size - at), stdin))) return false;
    return true;
}

// Return the memory in which the client of a host under Wine puts payloads, or null where they come through the pipe: a
// file of Linux that is already open. `most` bytes of addresses are mapped once, however long the file is.
static const unsigned char *shared_memory(size_t most) {
    const char *descriptor = getenv("SLICEPORT_MEMORY");
    auto map = descriptor ? unix_function<void *(UNIX *)(void *, size_t, int, int, int, int64_t)>("mmap") : nullptr;
    void *memory = map ? map(nullptr, most, 1, 1, atoi(descriptor), 0) : reinterpret_cast<void *>(-1);  // PROT_READ, MAP_SHARED
    return memory == reinterpret_cast<void *>(-1) ? nullptr : static_cast<unsigned char *>(memory);
}

static void answer(FILE *out, const json &header, const Bytes &payload) {
    const std::string text = header.dump(-1, ' ', true, json::error_handler_t::replace);
    const UINT32 a = static_cast<UINT32>(text.size());
    const UINT64 b = payload.size();
    fwrite(&a, 4, 1, out);
    fwrite(&b, 8, 1, out);
    fwrite(text.data(), 1, text.size(), out);
    for (size_t at = 0; at < payload.size(); at += piece) fwrite(payload.data() + at, 1, std::min(piece, payload.size() - at), out);
    fflush(out);
}

static json error(const std::string &call, HRESULT hresult, const char *message) {
    char code[11];
    snprintf(code, sizeof code, "0x%08lx", static_cast<unsigned long>(hresult));
    return {{"error", {{"call", call}, {"hresult", code}, {"message", message}}}};
}

int main() {
    // Answers go to a copy of stdout; stdout itself becomes stderr, so that no library can write into a frame.
    _setmode(_fileno(stdin), _O_BINARY);
    FILE *out = _fdopen(_dup(_fileno(stdout)), "wb");
    _setmode(_fileno(out), _O_BINARY);
    _dup2(_fileno(stderr), _fileno(stdout));
    std::unique_ptr<Device> device;
    std::unique_ptr<Onnx> onnx;
    const size_t most = 8ull << 30;
    const unsigned char *shared = shared_memory(most);
    UINT32 header_size;
    UINT64 payload_size;
    while (read_exactly(&header_size, 4) && read_exactly(&payload_size, 8)) {
        json result = json::object();
        std::string text;
        Bytes piped, reply;
        try {
            if (header_size > (64u << 20) || payload_size > most) return 3;  // not a frame of the client: give up
            text.resize(header_size);
            if (!shared) piped.resize(payload_size);
        } catch (const std::bad_alloc &) {
            return 4;  // the payload stays in the pipe
        }
        const Payload payload{shared ? shared : piped.data(), payload_size};
        try {
            if (!read_exactly(text.data(), text.size()) || !read_exactly(piped.data(), piped.size())) return 2;
            const json request = json::parse(text);
            const std::string what = request.at("do");
            if (!device) device = std::make_unique<Device>();
            if (what == "facts") {
                result = device->facts();
                if (!onnx) onnx = std::make_unique<Onnx>();
                result["onnxruntime"] = onnx->version;
            } else if (what == "create" || what == "run") {
                const json &image = request.at("operator");
                const size_t size = image.at("size");
                if (size > payload.size) throw std::invalid_argument("the payload is shorter than the operator");
                const Desc desc(image, payload.data);
                if (what == "create") {
                    device->create(desc);
                } else {
                    const std::vector<UINT64> sizes = request.at("outputs");
                    const std::string key(reinterpret_cast<const char *>(payload.data), size);
                    const Payload buffers{payload.data + size, payload.size - size};
                    reply = device->run(device->ready(desc, key), buffers, request.at("input"), request.at("offset"), sizes);
                }
            } else if (what == "onnx") {
                if (!onnx) onnx = std::make_unique<Onnx>();
                std::tie(result, reply) = onnx->run(*device, request, payload);
            } else {
                throw std::invalid_argument("request " + what + " is not known");
            }
        } catch (const Failure &f) {
            result = error(f.call, f.hresult, f.what());
            // The next request creates a new device.
            if (device && (FAILED(device->dml->GetDeviceRemovedReason()) || FAILED(device->discard()))) device.reset();
        } catch (const std::bad_alloc &) {
            result = error("new", E_OUTOFMEMORY, "out of memory");
        } catch (const std::exception &e) {
            result = error("request", E_INVALIDARG, e.what());
        }
        answer(out, result, reply);
    }
    return 0;
}
