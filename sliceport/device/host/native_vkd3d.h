// An ID3D12Device of Linux's own libvkd3d. It supports shader model 6, while the libvkd3d inside Wine supports only 5.1.
//
// libvkd3d's COM objects have the calling convention of Windows, so a Windows program inside Wine can call them. The
// functions of the library itself, and those that it calls back, have the calling convention of Linux.
#pragma once
#include <windows.h>

#include <cstdint>
#include <cstring>
#include <string>

#define UNIX __attribute__((sysv_abi))

// Return a function that Wine's ntdll.so imports from the C library: walk back from a function of ntdll.so to its ELF
// header, and look the name up among its relocations (System V ABI, "Object Files").
static void *imported_by_wine(const char *name) {
    struct Segment { uint32_t type, flags; uint64_t offset, address, more[4]; };
    struct Entry { int64_t tag; uint64_t value; };
    struct Relocation { uint64_t offset, info; int64_t addend; };
    struct Symbol { uint32_t name; uint8_t more[20]; };
    enum { DYNAMIC = 2, PLT_SIZE = 2, STRINGS = 5, SYMBOLS = 6, RELA = 7, RELA_SIZE = 8, PLT = 23 };
    auto dispatcher = reinterpret_cast<uintptr_t *>(GetProcAddress(GetModuleHandleA("ntdll.dll"), "__wine_unix_call_dispatcher"));
    uintptr_t base = *dispatcher & ~uintptr_t(4095);
    while (memcmp(reinterpret_cast<void *>(base), "\177ELF", 4)) base -= 4096;
    auto segment = reinterpret_cast<const Segment *>(base + *reinterpret_cast<uint64_t *>(base + 32));
    while (segment->type != DYNAMIC) segment++;
    uint64_t values[32]{};
    for (auto entry = reinterpret_cast<const Entry *>(base + segment->address); entry->tag; entry++)
        if (entry->tag > 0 && entry->tag < 32) values[entry->tag] = entry->value;
    auto symbols = reinterpret_cast<const Symbol *>(values[SYMBOLS]);  // the loader has made these pointers absolute
    auto strings = reinterpret_cast<const char *>(values[STRINGS]);
    for (auto [table, size] : {std::pair{values[RELA], values[RELA_SIZE]}, std::pair{values[PLT], values[PLT_SIZE]}}) {
        auto relocation = reinterpret_cast<const Relocation *>(table);
        for (auto end = relocation + size / sizeof *relocation; relocation < end; relocation++)
            if (!strcmp(strings + symbols[relocation->info >> 32].name, name)) return *reinterpret_cast<void **>(base + relocation->offset);
    }
    return nullptr;
}

template <class Function> static Function unix_function(const char *name) { return reinterpret_cast<Function>(imported_by_wine(name)); }

// vkd3d uses Wine's threads and events, because threads of its own could not call into Wine.
struct NativeThread {
    void *(UNIX *run)(void *);
    void *data;
};

static DWORD WINAPI run_thread(void *argument) {
    const NativeThread thread = *static_cast<NativeThread *>(argument);
    delete static_cast<NativeThread *>(argument);
    thread.run(thread.data);
    return 0;
}

static UNIX void *create_thread(void *(UNIX *run)(void *), void *data) { return CreateThread(nullptr, 0, run_thread, new NativeThread{run, data}, 0, nullptr); }

static UNIX HRESULT join_thread(void *thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
    return S_OK;
}

static UNIX HRESULT signal_event(HANDLE event) { return SetEvent(event) ? S_OK : E_FAIL; }

// Create the ID3D12Device, and set `adapter` to the name of its Vulkan device, because Wine invents a name for its DXGI
// adapter. `luid` identifies Wine's DXGI adapter; DirectML looks the adapter up by this number.
static HRESULT create_native_device(void **device, LUID luid, std::string &adapter) {
    struct InstanceInfo {  // vkd3d_instance_create_info
        uint32_t type;
        const void *next;
        decltype(&signal_event) signal;
        decltype(&create_thread) create;
        decltype(&join_thread) join;
        size_t wchar_size;
        const void *get_proc_address, *extensions;
        uint32_t extension_count;
    };
    struct DeviceInfo {  // vkd3d_device_create_info
        uint32_t type;
        const void *next;
        D3D_FEATURE_LEVEL level;
        const void *instance;
        const InstanceInfo *instance_info;
        const void *physical_device, *extensions;
        uint32_t extension_count;
        const void *parent;
        LUID luid;
    };
    auto open = unix_function<void *(UNIX *)(const char *, int)>("dlopen");
    auto find = unix_function<void *(UNIX *)(void *, const char *)>("dlsym");
    auto protect = unix_function<int (UNIX *)(void *, size_t, int)>("mprotect");
    void *library = open("libvkd3d.so.1", 2), *vulkan = open("libvulkan.so.1", 2);  // RTLD_NOW
    if (!library || !vulkan) return E_NOTIMPL;
    auto create = reinterpret_cast<HRESULT (UNIX *)(const DeviceInfo *, REFIID, void **)>(find(library, "vkd3d_create_device"));
    auto physical_device_of = reinterpret_cast<void *(UNIX *)(void *)>(find(library, "vkd3d_get_vk_physical_device"));
    auto get_properties = reinterpret_cast<void (UNIX *)(void *, void *)>(find(vulkan, "vkGetPhysicalDeviceProperties"));
    const InstanceInfo instance{0, nullptr, signal_event, create_thread, join_thread, sizeof(WCHAR), nullptr, nullptr, 0};
    const DeviceInfo info{1, nullptr, D3D_FEATURE_LEVEL_11_0, nullptr, &instance, nullptr, nullptr, 0, nullptr, luid};
    const HRESULT hr = create(&info, IID_ID3D12Device, device);
    if (FAILED(hr)) return hr;
    alignas(8) char properties[4096]{};  // VkPhysicalDeviceProperties: deviceType at 16, deviceName at 20
    get_properties(physical_device_of(*device), properties);
    adapter = properties + 20;
    adapter += properties[16] == 4 ? ", software on the CPU" : ", by Wine and Vulkan";  // VK_PHYSICAL_DEVICE_TYPE_CPU
    // `answer_meta_commands` replaces a function in the table of functions, so the table is made writable. mprotect does
    // it, because Wine does not know of this memory.
    const uintptr_t table = *static_cast<uintptr_t *>(*device), page = table & ~uintptr_t(4095);
    protect(reinterpret_cast<void *>(page), table + 4096 - page, 3);  // PROT_READ | PROT_WRITE
    return hr;
}
