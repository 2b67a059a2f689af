// Command guest runs commands, usually tests, in a virtual machine with Debian 12.
// QEMU boots its cloud kernel under emulation, so that it needs no hardware for
// virtual machines. It is where things are proven that the host cannot show: pure
// cgroup v2 or v1, another kernel, a boot, a power cut.
//
//	go run ./am/testkit/guest --test ./inventory/local/node
//	go run ./am/testkit/guest --cgroup v1 'ls /sys/fs/cgroup'
//	go run ./am/testkit/guest --disk d.img --cut 'patchbay-local up & …'
//	go run ./am/testkit/guest --disk d.img 'patchbay-local up & …'
//
// The commands are lines of sh and run one after the other as root; their
// output appears as it is written, and the exit status is that of the first
// that failed.
//
// The first run fetches Debian packages with apt-get (about 50 MB, nothing is
// installed) and makes a root file system with mmdebstrap; both are kept in
// .cache/guest. That needs root.
//
// In the guest, /guest is the disk that --disk keeps, /guest/src the source
// tree, and /var/lib/patchbay-local lies on it too. All else is as new at each
// boot. The program itself is PID 1 in there: see init.go.
package main
