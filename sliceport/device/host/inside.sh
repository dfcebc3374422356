#!/bin/sh
# inside.sh COMMAND...: run a command in this folder with a display and a copy of the Wine prefix, both in its own /tmp.
set -e
cd /opt/sliceport
mkdir -p -m 700 /tmp/runtime
mkdir -p -m 1777 /tmp/.X11-unix
wine=/usr/lib/x86_64-linux-gnu/wine
export PATH=$wine:/usr/bin HOME=/tmp USER=sliceport XDG_RUNTIME_DIR=/tmp/runtime DISPLAY=:97
export WINESERVER=$wine/wineserver WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=;winedbg.exe=" VKD3D_DEBUG=none
export VK_ICD_FILENAMES=$(echo /usr/share/vulkan/icd.d/lvp_icd*.json)
export WINEPREFIX=/tmp/prefix
[ ! -d prefix ] || cp -a prefix /tmp/prefix
Xvfb :97 -screen 0 640x480x24 -nolisten tcp -nolisten local >/dev/null 2>&1 </dev/null &
tries=0
while [ ! -e /tmp/.X11-unix/X97 ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "the virtual display does not start" >&2; exit 4; }
    sleep 0.05
done
exec "$@"
