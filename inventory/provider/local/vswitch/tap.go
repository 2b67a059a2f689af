package vswitch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTAP opens the TAP of that name in the calling thread's network namespace, and creates it if
// it does not exist. It needs root. The kernel deletes the TAP when its last file is closed. If
// segment is true, the kernel splits large segments and computes checksums, so that each packet
// comes in a frame of its own; loss and rate need that. If segment is false, a large segment
// comes as one frame, with a header that says how to split it; this is much faster.
//
// The file is blocking until the switch process has it. A non-blocking file would wake
// the Go runtime for each frame in every process that holds it.
func OpenTAP(name string, segment bool) (*os.File, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be the name of an interface: %w", name, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open /dev/net/tun: %w (it needs root, and the kernel's module tun)", err)
	}
	if err := makeTAP(fd, request, segment); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot make the TAP %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeTAP attaches the open file fd to a TAP. Without segment, its frames have a header of headerSize bytes.
func makeTAP(fd int, request *unix.Ifreq, segment bool) error {
	flags, offload := uint16(unix.IFF_TAP|unix.IFF_NO_PI), 0
	if !segment {
		flags |= unix.IFF_VNET_HDR
		offload = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	if !segment {
		if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, headerSize); err != nil {
			return err
		}
	}
	return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offload)
}

// tapOf returns the name of a TAP, and whether its frames have headers. It returns an error if the TAP was
// deleted, or was not opened by OpenTAP.
func tapOf(f *os.File) (name string, headers bool, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return "", false, err
	}
	request, err := unix.NewIfreq("")
	if err != nil {
		return "", false, err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.IoctlIfreq(int(fd), unix.TUNGETIFF, request) }); err != nil {
		return "", false, err
	}
	if inner != nil {
		return "", false, fmt.Errorf("%s is not a TAP, or the TAP was deleted: %w", f.Name(), inner)
	}
	flags := request.Uint16()
	if flags&unix.IFF_TAP == 0 || flags&unix.IFF_NO_PI == 0 {
		return "", false, fmt.Errorf("%s is not a TAP of OpenTAP", f.Name())
	}
	return request.Name(), flags&unix.IFF_VNET_HDR != 0, nil
}

// headerSize is the size of the header before the frames of a TAP opened without segment
// (struct virtio_net_hdr).
const headerSize = 10
