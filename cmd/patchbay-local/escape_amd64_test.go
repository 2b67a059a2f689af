package main

import (
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// foreign makes a system call of 32-bit programs: getpid. A kernel without such calls reports a fault.
func foreign() (answer string) {
	defer func() {
		if recover() != nil {
			answer = "no such calls"
		}
	}()
	debug.SetPanicOnFault(true)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return errnoText(err)
	}
	copy(page, []byte{
		0xb8, 20, 0, 0, 0, // mov eax, 20
		0xcd, 0x80, // int 0x80
		0xc3, // ret
	})
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return errnoText(err)
	}
	code := unsafe.Pointer(unsafe.SliceData(page))
	entry := unsafe.Pointer(&code) // a func is a pointer to a pointer to code
	(*(*func())(unsafe.Pointer(&entry)))()
	return "done"
}

// callAttemptsHere are attempts with calls of this architecture alone.
func callAttemptsHere(one func(uintptr, ...uintptr) func() string) []attempt {
	return []attempt{
		{"the kernel", "a call of 32-bit programs", "killed by SIGSYS | no such calls", 0, foreign},
		{"the host", "iopl", "EPERM", 0, one(unix.SYS_IOPL, 0)},
		{"the host", "ioperm", "EPERM", 0, one(unix.SYS_IOPERM, 0, 0, 0)},
		{"the kernel", "kexec_file_load", "EPERM", 0, one(unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0, 0, 0)},
		{"the kernel", "modify_ldt", "ENOSYS", 0, one(unix.SYS_MODIFY_LDT, 0, 0, 0)},
	}
}
