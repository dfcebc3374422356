#!/bin/sh
# launch.sh ROOT HOME COMMAND...: run a command in HOME, a folder inside ROOT, with a display and a Wine prefix.
#
# It runs as the first process of its own mount, process, network and IPC namespaces (see launch.py): what is mounted and
# started here ends with it, whatever happens. The Wine prefix is written through an overlay in memory, so that any number
# of these run side by side.
set -e
root=${1%/}
home=$2
shift 2
mount --make-rprivate /
mount -t proc proc "$root/proc"
if [ "$root" ]; then
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
elif [ "$home" != / ]; then
    mount --rbind "$home" /mnt  # it may lie in /tmp
    home=/mnt
fi
mount -t tmpfs tmpfs "$root/tmp"
if [ -d "$root$home/prefix" ]; then
    mkdir "$root/tmp/upper" "$root/tmp/work"
    mount -t overlay overlay -o "lowerdir=$root$home/prefix,upperdir=$root/tmp/upper,workdir=$root/tmp/work" \
        "$root$home/prefix"
fi
exec chroot "$root/" /bin/sh -ec '
cd "$1"
shift
mkdir -m 700 /tmp/runtime
mkdir -m 1777 /tmp/.X11-unix
export HOME=/tmp XDG_RUNTIME_DIR=/tmp/runtime DISPLAY=:97 WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=;winedbg.exe="
export VKD3D_DEBUG=none
export WINEDLLPATH=$PWD/native  # the DLL of a full installation
export WINEPREFIX=$PWD/prefix
export VK_ICD_FILENAMES=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json)
Xvfb :97 -screen 0 640x480x24 -nolisten tcp >/dev/null 2>&1 </dev/null &
tries=0
while [ ! -e /tmp/.X11-unix/X97 ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "the virtual display does not start" >&2; exit 4; }
    sleep 0.05
done
exec "$@"' launch "$home" "$@"
