package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider"
)

// tasks are functions of the test program in a node, by name. Each takes as much as
// possible of one resource and returns how much. Those that hold it do so until their
// input ends.
var tasks = map[string]func() string{
	"listen":    listenInside,
	"disk":      func() string { return fill("/var/tmp/full") },
	"inodes":    fillInodes,
	"shm":       func() string { return fill("/dev/shm/full") },
	"run":       func() string { return fill("/run/full") },
	"dev":       func() string { return fill("/dev/full2") },
	"memory":    fillMemory,
	"mappings":  fillMappings,
	"thrash":    useAllMemory,
	"forks":     func() string { return hold(forks) },
	"processor": spin,
	"files":     func() string { return takeAll(openFile) },
	"terminals": func() string { return hold(func() string { return takeAll(openTerminal) }) },
	"inotify":   func() string { return hold(func() string { return takeAll(openInotify) }) },
	"pending":   func() string { return hold(func() string { return takeAll(queueSignal) }) },
	"queues":    func() string { return hold(func() string { return takeAll(openQueue()) }) },
	"timers":    func() string { return hold(func() string { return takeAll(openTimer) }) },
	"datagrams": datagrams,
	"names":     oddNames,
	"filters":   func() string { return hold(attachFilters) },
	"orphans":   orphans,
	"spin":      func() string { select {} },
	"fragments": fragments,
	"backlog":   func() string { return hold(fillBacklog) },

	"bend-qdiscs":   bendQdiscs,
	"bend-offloads": bendOffloads,
	"bend-mtu":      bendMTU,
	"bend-address":  bendAddress,
	"bend-mac":      bendMAC,
	"bend-name":     bendName,
	"flood-frames":  func() string { return flood(floodFrames) },
	"flood-arp":     func() string { return flood(floodARP) },
	"flood-udp":     func() string { return flood(floodUDP) },
	"delete-links":  deleteLinks,
}

// listenInside listens at sockets that are unreachable from outside the node.
func listenInside() string {
	_, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(told.PeerPort)))
	if err == nil {
		_, err = net.Listen("unix", told.Peer)
	}
	if err != nil {
		return err.Error()
	}
	return hold(func() string { return "listening" })
}

func hold(f func() string) string {
	fmt.Println(f())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return ""
}

// takeAll takes a resource again and again until there is no more.
func takeAll(one func() error) string {
	l := unix.Rlimit{}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	}
	for n := 0; ; n++ {
		if err := one(); err != nil || n == 1_000_000 {
			return fmt.Sprint(n, " ", errnoText(err))
		}
	}
}

func fill(path string) string {
	f, err := os.Create(path)
	if err != nil {
		return openError(err)
	}
	defer os.Remove(path)
	defer f.Close()
	block, n := make([]byte, 1<<20), 0
	for {
		m, err := f.Write(block)
		n += m
		if err == nil && n > 1<<30 {
			return "more than 1 GB"
		}
		if err != nil {
			_ = f.Sync()
			return openError(err)
		}
	}
}

func fillInodes() string {
	const dir = "/var/tmp/inodes"
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err.Error()
	}
	for n := range 500_000 {
		f, err := os.Create(dir + "/" + strconv.Itoa(n))
		if err != nil {
			return openError(err)
		}
		f.Close()
	}
	return "more than 500,000"
}

func fillMemory() string {
	var all [][]byte
	for range 1 << 10 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	return fmt.Sprint(len(all), " MB")
}

func fillMappings() string {
	for range 1_000_000 {
		_, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, 1<<40, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE, ^uintptr(0), 0)
		if e != 0 {
			return errnoText(e)
		}
	}
	return "more than 1,000,000 TB"
}

func forks() string {
	n := 0
	for ; n < 5000; n++ {
		if err := exec.Command("/bin/sleep", "30").Start(); err != nil {
			if errors.Is(err, unix.EAGAIN) {
				return fmt.Sprint(n, " EAGAIN")
			}
			return err.Error()
		}
	}
	return "5000"
}

// spin uses all available processor time for a duration, and returns how much it was.
func spin() string {
	var all []*exec.Cmd
	began := time.Now()
	for range 6 {
		c := exec.Command("/proc/self/exe")
		c.Env = []string{escapeVariable + "=spin", escapeFacts + "={}", "GOMAXPROCS=1"}
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
		if err := c.Start(); err != nil {
			return err.Error()
		}
		all = append(all, c)
	}
	time.Sleep(700 * time.Millisecond)
	var used time.Duration
	for _, c := range all {
		_ = c.Process.Kill()
	}
	wall := time.Since(began)
	for _, c := range all {
		_ = c.Wait()
		used += c.ProcessState.SystemTime() + c.ProcessState.UserTime()
	}
	if used > wall*3/2 {
		return fmt.Sprintf("%v of processor time in %v", used, wall)
	}
	return "no more than its processor"
}

func openFile() error {
	_, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	return err
}

func openTerminal() error {
	_, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	return err
}

func openInotify() error {
	_, err := unix.InotifyInit1(0)
	return err
}

// queueSignal leaves a blocked signal pending.
func queueSignal() error {
	const signal = 40
	set := unix.Sigset_t{}
	set.Val[0] = 1 << (signal - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return err
	}
	var info [128]byte
	*(*int32)(unsafe.Pointer(&info[0])) = signal
	*(*int32)(unsafe.Pointer(&info[8])) = -1
	_, _, e := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), signal, uintptr(unsafe.Pointer(&info)), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func openTimer() error {
	var id int32
	event := [64]byte{}
	*(*int32)(unsafe.Pointer(&event[12])) = 1 // SIGEV_NONE
	_, _, e := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	if e != 0 {
		return e
	}
	return nil
}

func openQueue() func() error {
	n := 0
	return func() error {
		n++
		_, _, e := unix.RawSyscall6(unix.SYS_MQ_OPEN, text("q"+strconv.Itoa(n)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
		if e != 0 {
			return e
		}
		return nil
	}
}

// datagrams leaves datagrams waiting in sockets, and counts them.
func datagrams() string {
	var readers []int
	l := unix.Rlimit{}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
	}
	block := make([]byte, 60000)
	writer, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	for range 1500 {
		if err != nil {
			break
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0); err != nil {
			break
		}
		if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			break
		}
		readers = append(readers, fd)
		at, e := unix.Getsockname(fd)
		if e != nil {
			return errnoText(e)
		}
		for range 3 {
			_ = unix.Sendto(writer, block, 0, at)
		}
	}
	waits := 0
	for _, fd := range readers {
		for {
			n, _, err := unix.Recvfrom(fd, block, 0)
			if err != nil {
				break
			}
			waits += n
		}
	}
	if len(readers) < 1000 {
		return fmt.Sprint(len(readers), " sockets ", errnoText(err))
	}
	if waits > 100<<20 {
		return fmt.Sprint(waits>>20, " MB")
	}
	return "no more than its share"
}

// oddNames creates a deep tree of names of maximum length, with bytes that are not text.
func oddNames() string {
	name := strings.Repeat("\n\x1b[31m\xff", 36)
	name += strings.Repeat("x", 255-len(name))
	if err := os.Chdir("/var/tmp"); err != nil {
		return err.Error()
	}
	for range 400 {
		err := os.Mkdir(name, 0o000)
		if err == nil {
			err = os.Chdir(name)
		}
		if err != nil {
			return openError(err)
		}
	}
	for n := range 2000 {
		f, err := os.Create(fmt.Sprintf("\xff\n%d", n))
		if err != nil {
			return openError(err)
		}
		f.Close()
	}
	return "made"
}

// orphans leaves many ended children to PID 1.
func orphans() string {
	for range 100 {
		if err := exec.Command("/bin/sh", "-c", "true & true & true &").Run(); err != nil {
			return err.Error()
		}
	}
	for range 1000 {
		n := 0
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err == nil {
				n++
			}
		}
		if n < 20 {
			return "none is left"
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "they stay"
}

// exhaustNode uses up all resources in one node, and checks the other node and the host.
func (a *arena) exhaustNode(t *testing.T) {
	alive := func(what string) {
		t.Helper()
		for _, name := range []string{nodeA, nodeB} {
			got, err := a.ssh(t, name, "echo alive")
			check(t, what, "then a login at "+name[len(name)-4:], "alive", strings.TrimSpace(got)+errorText(err))
		}
	}
	for _, row := range []struct{ what, task, must string }{
		{"disk", "disk", "ENOSPC"}, {"inodes", "inodes", "ENOSPC"}, {"/run", "run", "ENOSPC"}, {"/dev", "dev", "ENOSPC"},
		{"/dev/shm", "shm", "ENOSPC | exit status 137"}, {"memory", "memory", "exit status 137"}, {"mappings", "mappings", "ENOMEM"}, {"programs that are read again and again", "thrash", "exit status 137"},
		{"processor", "processor", "no more than its processor"}, {"datagrams that wait", "datagrams", "no more than its share"},
		{"orphans that ended", "orphans", "none is left"}, {"names of odd bytes, 400 deep", "names", "made"},
	} {
		check(t, "exhaustion", row.what, row.must, a.task(nodeA, row.task))
	}
	most := a.task(nodeA, "files")
	check(t, "exhaustion", "open files", "EMFILE | exit status 137", most[strings.LastIndexByte(most, ' ')+1:])
	alive("exhaustion")
	check(t, "exhaustion", "what the host stores for the disk", "no more than its size", atMost(a.diskUsage(t, nodeA), 97<<20))

	line, stop := a.background(t, nodeA, "forks")
	check(t, "exhaustion", "processes", "EAGAIN", line[strings.LastIndexByte(line, ' ')+1:])
	alive("processes")
	a.set(t, nodeA, provider.Resource{"users": []string{a.user("alice"), a.user("bob")}})
	a.await(t, nodeA, provider.StateReady) // the login of another account is proven
	stop()
	_, _ = a.enter(nodeA, nil, "kill -9 -1") // which ends itself, too
	alive("every process killed")
	instances, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Fatal(err)
	}
	mostInotify, _ := strconv.Atoi(strings.TrimSpace(string(instances)))
	// One node must not use up resources that the kernel counts per user for another
	// node.
	for _, row := range []struct {
		task, must string
		most       int
	}{
		{"terminals", "ENOSPC", 256}, {"inotify", "EMFILE", mostInotify}, {"pending", "EAGAIN", 1 << 20}, {"queues", "EMFILE | ENOSPC", 256}, {"timers", "EAGAIN", 1 << 20},
	} {
		var counts [2]int
		var stops []func()
		for i, name := range []string{nodeA, nodeB} {
			line, stop := a.background(t, name, row.task)
			stops = append(stops, stop)
			count, end, _ := strings.Cut(line, " ")
			counts[i], _ = strconv.Atoi(count)
			check(t, row.task, "all, in the node "+name[len(name)-4:], row.must, end)
		}
		got := "no more than a node may have"
		if counts[0] > row.most || counts[0] == 0 {
			got = fmt.Sprint(counts[0])
		}
		check(t, row.task, "how many", "no more than a node may have", got)
		got = "as many"
		if counts[1] < counts[0]*9/10 {
			got = fmt.Sprintf("%d, %d", counts[0], counts[1])
		}
		check(t, row.task, "and in the other node at the same time", "as many", got)
		if host := map[string]func() error{"inotify": openInotify, "terminals": openTerminal, "timers": openTimer}[row.task]; host != nil {
			check(t, row.task, "and on the host at the same time", "done", errnoText(host()))
		}
		for _, stop := range stops {
			stop()
		}
	}
	check(t, "the log", "of what PID 1 says, on the host", "no more than its size", atMost(size(t, filepath.Join(a.testSite.state, "nodes", nodeA, "log")), 64<<10))
}

// checkOwners checks the owners of a node's files on the host.
func (a *arena) checkOwners(t *testing.T) {
	t.Helper()
	for path, must := range map[string]string{"": "drwx------ 0", "nodes": "drwx------ 0", "nodes/" + nodeA: "drwx------ 0", "nodes/" + nodeA + "/disk.img": "-rw------- 0", "nodes/" + nodeA + "/agent.sock": "Srw------- 0"} {
		info, err := os.Lstat(filepath.Join(a.testSite.state, path))
		got := errorText(err)
		if err == nil {
			got = fmt.Sprint(info.Mode(), " ", info.Sys().(*syscall.Stat_t).Uid)
		}
		check(t, "on the host", "nobody but root comes to state/"+path, must, got)
	}
	if out, err := a.enter(nodeA, nil, "cp /bin/sh /var/tmp/sh && chmod 4755 /var/tmp/sh"); err != nil {
		t.Fatal(out, err)
	}
	answer, err := a.provider.Get(t.Context(), []string{nodeA})
	if err != nil || answer[nodeA].Err != nil {
		t.Fatal(err)
	}
	for _, n := range a.list(t).Nodes {
		if n.Name != nodeA {
			continue
		}
		info, err := os.Lstat(fmt.Sprintf("/proc/%d/root/var/tmp/sh", n.PID))
		got := errorText(err)
		if err == nil {
			got = "another's"
			if uid := info.Sys().(*syscall.Stat_t).Uid; uid >= n.Base && uid < n.Base+65536 && info.Mode()&fs.ModeSetuid != 0 {
				got = "one of the node's"
			}
		}
		check(t, "on the host", "whose a setuid file of the node's root is", "one of the node's", got)
	}
}

// diskUsage returns the bytes that the host stores for a node's disk.
func (a *arena) diskUsage(t *testing.T, name string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(a.testSite.state, "nodes", name, "disk.img"), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func atMost(n, most int64) string {
	if n > most {
		return fmt.Sprint(n)
	}
	return "no more than its size"
}

// removeFullNode removes the node that was filled.
func (a *arena) removeFullNode(t *testing.T) {
	began := time.Now()
	a.remove(t, nodeA)
	got := "in no time"
	if took := time.Since(began); took > 15*time.Second {
		got = took.String()
	}
	check(t, "afterwards", "the node is removed", "in no time", got)
	check(t, "afterwards", "the other one stays", provider.StateReady, stateOf(getNode(t, a.provider, nodeB)))
}

// useAllMemory leaves hardly any memory for the program's own code, which it then needs
// again and again: without intervention it would never end.
func useAllMemory() string {
	text, err := os.Open("/proc/self/exe")
	if err != nil {
		return err.Error()
	}
	st, err := text.Stat()
	if err != nil {
		return err.Error()
	}
	pages, err := unix.Mmap(int(text.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err.Error()
	}
	const spare = 6 << 20 // of the 192 MB that a node has here
	b := make([]byte, 192<<20-spare-int(ownMemory()))
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	sum := byte(0)
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); {
		for i := 0; i < len(pages); i += 4096 {
			sum += pages[i]
		}
	}
	return fmt.Sprint("goes on for ever ", sum, b[0])
}

// ownMemory returns the memory of the node's processes in bytes, without files.
func ownMemory() (bytes int64) {
	files, _ := filepath.Glob("/proc/[0-9]*/statm")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if w := strings.Fields(string(text)); len(w) > 2 {
			all, _ := strconv.ParseInt(w[1], 10, 64)
			shared, _ := strconv.ParseInt(w[2], 10, 64)
			bytes += (all - shared) * 4096
		}
	}
	return bytes
}
