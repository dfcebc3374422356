/* A Winelib DLL that makes an ID3D12Device of the system's own libvkd3d, which has shader model 6 where Wine's has 5.1.
 *
 * libvkd3d's COM objects keep the calling convention of Windows, so that a Windows program inside Wine can call them. It
 * needs Wine's threads (its own would call into Wine without a TEB), Wine's events, and the LUID of Wine's DXGI adapter,
 * by which DirectML looks the adapter up. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vkd3d.h>

#define WIN __attribute__((ms_abi))
extern int WIN SetEvent(void *event);
extern void *WIN CreateThread(void *security, size_t stack, void *start, void *argument, unsigned flags, unsigned *id);
extern unsigned WIN WaitForSingleObject(void *handle, unsigned milliseconds);
extern int WIN CloseHandle(void *handle);

struct start {
    PFN_vkd3d_thread run;
    void *data;
};

static WIN unsigned thread_main(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    start.run(start.data);
    return 0;
}

static void *create_thread(PFN_vkd3d_thread run, void *data)
{
    struct start *start = malloc(sizeof *start);
    void *thread;
    if (!start)
        return NULL;
    *start = (struct start){run, data};
    if (!(thread = CreateThread(NULL, 0, thread_main, start, 0, NULL)))
        free(start);
    return thread;
}

static HRESULT join_thread(void *thread)
{
    WaitForSingleObject(thread, 0xffffffff);
    CloseHandle(thread);
    return S_OK;
}

static HRESULT signal_event(HANDLE event)
{
    return SetEvent((void *)event) ? S_OK : E_FAIL;
}

/* vkd3d answers EnumerateMetaCommands with E_NOTIMPL, on which DirectML gives up. */
static WIN HRESULT no_meta_commands(void *device, unsigned *count, void *descs)
{
    (void)device, (void)descs;
    if (count)
        *count = 0;
    return S_OK;
}

WIN HRESULT NativeCreateDevice(void **device, uint64_t luid)
{
    enum { ENUMERATE_META_COMMANDS = 59 };
    struct vkd3d_instance_create_info instance = {.type = VKD3D_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    struct vkd3d_device_create_info info = {.type = VKD3D_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    uintptr_t page = sysconf(_SC_PAGESIZE), first;
    void **slot;
    HRESULT hr;

    instance.pfn_signal_event = signal_event;
    instance.pfn_create_thread = create_thread;
    instance.pfn_join_thread = join_thread;
    instance.wchar_size = 2;
    info.minimum_feature_level = D3D_FEATURE_LEVEL_11_0;
    info.instance_create_info = &instance;
    __builtin_memcpy(&info.adapter_luid, &luid, sizeof luid);
    if ((hr = vkd3d_create_device(&info, &IID_ID3D12Device, device)) < 0)
        return hr;
    slot = *(void ***)*device + ENUMERATE_META_COMMANDS;
    first = (uintptr_t)slot & ~(page - 1);
    if (mprotect((void *)first, (uintptr_t)(slot + 1) - first, PROT_READ | PROT_WRITE))
        return E_FAIL;
    *slot = no_meta_commands;
    return hr;
}
