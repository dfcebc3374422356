#!/bin/sh
# enter.sh mount|proot ROOT COMMAND...: run a command with ROOT as its root folder, and with a /tmp of its own.
#
# `mount` must be run in a new mount namespace, because it changes mounts. ROOT contains the program proot.
set -e
way=$1
root=$2
shift 2
case $way in
mount)
    PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate /
    mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"  # a container may hide parts of it
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/tmp"
    exec chroot "$root" "$@"
    ;;
proot)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    export PROOT_NO_SECCOMP=1  # with seccomp, programs end with SIGBUS on Linux 6.18
    # If this shell is killed, proot gets SIGQUIT, and then ends the programs that it traces.
    setpriv --pdeathsig QUIT "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" \
        "$root/usr/bin/proot" --kill-on-exit -r "$root" -w / -b /dev -b /proc -b /sys -b "$folder:/tmp" "$@"
    ;;
esac
