package sandbox

import (
	"os"
	"strings"
	"testing"

	"patchbay/am/testkit/require"
)

// Ordinary programs must work under the filter and without the capabilities. Each line
// runs in an empty folder as root of the node.
func TestNodeCan(t *testing.T) {
	const hello = `printf '#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p){puts("good");return p;}\nint main(void){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);return 0;}\n' > hello.c && gcc -g -pthread -o hello hello.c`
	const loopback = `ip link set lo up && `
	for _, c := range []struct{ name, tool, line, want string }{
		{"JobControl", "bash", `bash -c 'set -m; sleep 9 & sleep 9 & kill %1; kill -STOP %2; kill -CONT %2; kill %2; wait; echo good'`, "good"},
		{"Pipes", "bash", `bash -c 'cat <(echo go) <(echo od) | tr -d "\n"; mkfifo f; (echo x > f &) ; cat f'`, "good"},
		{"Python", "python3", `python3 -c '
import threading, subprocess, multiprocessing, tempfile, mmap, select, os
l = multiprocessing.Lock(); q = multiprocessing.Queue()
def f(): q.put("go" + subprocess.check_output(["echo", "od"], text=True))
p = multiprocessing.Process(target=f); p.start(); print(q.get()); p.join()
t = threading.Thread(target=os.getpid); t.start(); t.join()
m = mmap.mmap(-1, 4096); e = select.epoll(); s = os.memfd_create("m")'`, "good"},
		{"RawSockets", "python3", loopback + `python3 -c '
import socket
for f, k, p in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0x300), (socket.AF_INET6, socket.SOCK_DGRAM, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 12), (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)):
    socket.socket(f, k, p)
socket.socket().bind(("127.0.0.1", 22))
socket.socketpair(); print("good")'`, "good"},
		{"Compiler", "gcc", hello + ` && ./hello`, "good"},
		{"Make", "make", `printf 'all: ; @echo good\n' > Makefile && make -s -j4`, "good"},
		{"Debugger", "gdb", hello + ` && gdb -nx -batch -ex 'break f' -ex run -ex bt -ex continue ./hello`, "Breakpoint 1, f "},
		{"DebuggerWithoutRandomAddresses", "gdb", hello + ` && gdb -nx -batch -ex run ./hello 2>&1 | grep -c randomization; echo good`, "0\ngood"},
		{"Strace", "strace", `strace -f -o trace sh -c 'true; /bin/true' && grep -q execve trace && echo good`, "good"},
		{"Perl", "perl", `perl -e 'my $p = fork; if (!$p) { exit 7 } wait; print "good" if $? >> 8 == 7'`, "good"},
		{"Node", "node", `node -e 'require("fs").promises.readFile("/etc/passwd").then(() => console.log("good"))'`, "good"},
		{"Java", "java", `java -version 2>&1 | head -1 | grep -q version && echo good`, "good"},
		{"Git", "git", `git init -q r && cd r && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m good && git log --format=%s`, "good"},
		{"Tar", "tar", `echo good > a && tar czf a.tgz a && rm a && tar xzf a.tgz && cat a`, "good"},
		{"Rsync", "rsync", `mkdir a && echo good > a/f && rsync -aHAX a/ b/ && cat b/f`, "good"},
		{"Packages", "dpkg-deb", `mkdir -p d/DEBIAN && printf 'Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a\n' > d/DEBIAN/control && chmod 755 d d/DEBIAN && dpkg-deb -b d a.deb >/dev/null && mkdir -p r/var/lib/dpkg/info r/var/lib/dpkg/updates && touch r/var/lib/dpkg/status && dpkg --root=$PWD/r --force-not-root -i a.deb >/dev/null && dpkg-query --admindir=r/var/lib/dpkg -W -f '${Status}' a`, "install ok installed"},
		{"Apt", "apt-get", `mkdir -p lists/partial cache/archives/partial etc && touch status && apt-get -o Dir::State=$PWD -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache -o Dir::Etc=$PWD/etc -o Debug::NoLocking=1 update && echo good`, "good"},
		{"OtherUser", "setpriv", `chmod 755 . && setpriv --reuid 1000 --regid 1000 --clear-groups id -u`, "1000"},
		{"SetuidPrograms", "setpriv", `chmod 755 . && cp /usr/bin/id me && chmod 4755 me && setpriv --reuid 1000 --regid 1000 --clear-groups ./me`, "euid=0(root)"},
		{"FileCapabilities", "setcap", `cp /bin/true t && setcap cap_net_raw+ep t && getcap t`, "cap_net_raw"},
		{"GivingUpRights", "setpriv", `setpriv --bounding-set=-all --inh-caps=-all --no-new-privs echo good`, "good"},
		{"Chroot", "chroot", `chroot / echo good`, "good"},
		{"Chown", "chown", `touch a && chown 1000:1000 a && stat -c %u:%g a`, "1000:1000"},
		{"Network", "ip", loopback + `ip addr add 10.9.8.7/24 dev lo && ip route show table local && ss -tln >/dev/null && ip -o addr`, "10.9.8.7"},
		{"Terminals", "script", `script -qec 'stty rows 33 cols 99; stty size' /dev/null`, "33 99"},
		{"Keys", "ssh-keygen", `ssh-keygen -q -t ed25519 -N '' -f k && echo good`, "good"},
		{"OpenSSL", "openssl", `openssl rand -hex 4 >/dev/null && echo good`, "good"},
		{"FixedAddresses", "setarch", `setarch -R echo good`, "good"},
		{"Priorities", "taskset", `nice -n 5 ionice -c 3 taskset -c 0 chrt -b 0 timeout 5 echo good`, "good"},
		{"Locks", "flock", `flock l echo good`, "good"},
		{"NoNewPrivsStaysOff", "grep", `cat /proc/self/status | grep -c '^NoNewPrivs:.0'`, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Root(t)
			require.Tool(t, c.tool)
			dir := nodeFolder(t)
			run := nodeChild(t, "node", "sh", "-c", c.line)
			run.Dir = dir
			run.Env = append(run.Env, "HOME="+dir, "TMPDIR="+dir)
			out, err := run.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q in\n%s", err, c.want, out)
			}
		})
	}
}

// nodeFolder returns a folder that belongs to root of a child.
func nodeFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "confine") // t.TempDir is in a folder that only root of the host can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, hostID, hostID); err != nil {
		t.Fatal(err)
	}
	return dir
}
