package vswitch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTAP opens the TAP of that name in the network name space of the calling
// thread, and makes it if it is not there; it goes with the last that has it
// open. With segment the kernel cuts and sums up what nodes leave to be done by
// their cards, so that every frame comes alone: loss and rate need that. Without,
// segments come as one, with a header that says how to cut them, which is much
// faster. It needs root.
//
// Reading the file blocks until the relay has it: were it non-blocking, the Go
// runtime would be woken by each frame in every process that holds it.
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

// tapOf is the name of the TAP that f is, and whether its frames have headers.
// It is an error when the TAP has gone.
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
		return "", false, fmt.Errorf("%s is no TAP, or it has gone: %w", f.Name(), inner)
	}
	flags := request.Uint16()
	if flags&unix.IFF_TAP == 0 || flags&unix.IFF_NO_PI == 0 {
		return "", false, fmt.Errorf("%s is not a TAP as the relay opens it", f.Name())
	}
	return request.Name(), flags&unix.IFF_VNET_HDR != 0, nil
}

// headerSize is the length of the header before frames of a TAP that was opened
// without segment (struct virtio_net_hdr).
const headerSize = 10
