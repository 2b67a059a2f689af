// Command guest runs commands, usually tests, in a virtual machine with Debian 12. QEMU
// emulates the machine, so no hardware support is needed. Use it to test what the host
// cannot show: only cgroup v2 or only v1, another kernel, a boot, a power failure.
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
// and makes a root file system with mmdebstrap; both are kept in .cache/guest. That needs
// root.
//
// In the guest, /guest is the disk that --disk keeps, and /guest/src the source tree.
// /var/lib/patchbay-local is on that disk too; everything else is new at each boot. The
// program itself is PID 1 of the guest: see init.go.
package main
