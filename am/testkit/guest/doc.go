// Command guest runs commands, usually tests, in a virtual machine with Debian 12. QEMU
// emulates the machine, so no hardware support is needed. Use it for tests that need a
// machine unlike the host: with only cgroup v2 or v1, with another kernel, that boots, or
// whose power fails.
//
//	go run ./am/testkit/guest --test ./inventory/local/node
//	go run ./am/testkit/guest --cgroup v1 'ls /sys/fs/cgroup'
//	go run ./am/testkit/guest --disk d.img --cut 'patchbay-local up & …'
//	go run ./am/testkit/guest --disk d.img 'patchbay-local up & …'
//
// The commands are lines of sh, run one after the other as root. Their output appears as
// it is written; the exit status is that of the first command that failed.
//
// The first run downloads Debian packages with apt-get (about 50 MB, nothing is installed)
// and creates a root file system with mmdebstrap. Both are stored in .cache/guest. The
// command needs root.
//
// In the guest, /guest is the disk, and /guest/src the source tree. /var/lib/patchbay-local
// is on that disk too. With --disk the disk is a file that later boots use again; everything
// else is new at each boot. The program itself is PID 1 of the guest: see init.go.
package main
