package sandbox

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// foreign makes a call of the other architecture that the processor knows: getpid of 32-bit programs.
func foreign() {
	runtime.LockOSThread()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(err)
	copy(page, []byte{
		0xb8, 20, 0, 0, 0, // mov eax, 20
		0xcd, 0x80, // int 0x80
		0xc3, // ret
	})
	must(unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC))
	code := unsafe.Pointer(unsafe.SliceData(page))
	entry := unsafe.Pointer(&code) // a func is a pointer to a pointer to code
	(*(*func())(unsafe.Pointer(&entry)))()
}

func TestForeignCallKillsProcessesOfNodes(t *testing.T) {
	if out, err := child(t, "foreign").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no 32-bit calls: %v\n%s", err, out)
	}
	diesOfSeccomp(t, nodeChild(t, "node", "foreign"))
}
