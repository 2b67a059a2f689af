package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// debianPackages are the dependencies and recommendations of the package. The test system has them
// from the start, because it has no network.
const debianPackages = "systemd,systemd-sysv,dbus,iperf3,iputils-ping,sudo,libssl3,libxml2,openssh-client,e2fsprogs,logrotate,iproute2,man-db,jq,curl"

// TestPackage installs the Debian package in a Debian that systemd has booted, runs the
// commands of README and guides that are for installed systems, upgrades, and purges.
// It needs root, the packages of `make package` in dist/, and mmdebstrap.
func TestPackage(t *testing.T) {
	r := release{source: "../..", built: "../../.cache/package", dist: "../../dist"}
	current := glob(t, filepath.Join(r.dist, "*.deb"))
	m := boot(t)
	m.copy(current, "/root/patchbay_current.deb") // the only one that README's command finds
	m.copy(previous(t, r), "/opt/previous.deb")
	site := "/var/lib/patchbay"

	m.run("install the previous version", `dpkg -i /opt/previous.deb && patchbay version && id patchbay && stat -c '%U %a' `+site+` | grep -x 'patchbay 700'`)
	m.run("a site serves under its unit", `
		sudo -u patchbay patchbay init --authority testbed.example.org --public-url https://127.0.0.1:8443 `+site+`
		systemctl enable --now patchbay
		timeout 60 sh -c 'until curl -sf http://127.0.0.1:8444/readyz; do sleep 0.2; done'
		cd `+site+` && sudo -u patchbay patchbay user alice && sudo -u patchbay patchbay slice first --owner alice
		sudo -u patchbay patchbay call --user alice --slice first Allocate request.xml >/dev/null
		sudo -u patchbay patchbay call --user alice --slice first Provision --wait >/dev/null
		patchbay slivers --config . --json | jq -r .urn | sort >/root/before
		test -s /root/before`)
	m.run("upgrade keeps the state", `
		dpkg -i /root/patchbay_current.deb
		systemctl is-active patchbay
		timeout 60 sh -c 'until curl -sf http://127.0.0.1:8444/readyz; do sleep 0.2; done'
		test "$(readlink /proc/$(systemctl show -p MainPID --value patchbay)/exe)" = /usr/bin/patchbay
		patchbay slivers --config `+site+` --json | jq -r .urn | sort | diff /root/before -
		patchbay check --config `+site+``)
	m.run("manual, completion, guides", `
		man -w patchbay patchbay-up patchbay-local-up
		bash -n /usr/share/bash-completion/completions/patchbay
		logrotate -d /etc/logrotate.d/patchbay
		systemd-analyze verify patchbay.service patchbay-local.service
		systemctl reload patchbay
		test -s /usr/share/doc/patchbay/copyright
		cd /usr/share/doc/patchbay
		for link in $(grep -oh '](\(guide/\)\?[A-Za-z-]*\.\(md\|svg\)' README.md | cut -c 3-); do test -s $link; done`)
	m.run("up by hand", `
		useradd -m bob
		su - bob -c 'patchbay up --example && patchbay status && patchbay down --all --yes'`)
	m.run("remove stops the server", `dpkg -r patchbay; ! systemctl is-active patchbay; ! pgrep -x patchbay; test -e /etc/logrotate.d/patchbay`)
	m.run("purge leaves the state and nothing else", `
		dpkg -P patchbay
		test -s `+site+`/state.db && test -s `+site+`/audit.log
		find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path `+site+` -o -path /home/bob -o -path /var/log -o -path /var/cache \) -prune -o -iname '*patchbay*' -print | grep -v '^/var/lib/patchbay$' | tee /dev/stderr | wc -l | grep -x 0`)
	m.run("installing again finds the state", `
		dpkg -i /root/patchbay_current.deb && systemctl enable --now patchbay
		timeout 60 sh -c 'until curl -sf http://127.0.0.1:8444/readyz; do sleep 0.2; done'
		patchbay slivers --config `+site+` --json | jq -r .urn | sort | diff /root/before -
		dpkg -P patchbay; rm -rf `+site+``)
	first := []string{"../../README.md", "../../cmd/patchbay/guide/operator.md"} // they install, and make the site
	last := []string{"../../cmd/patchbay/guide/class.md"}                        // it makes and removes a site of its own
	others := slices.DeleteFunc(matches(t, "../../cmd/patchbay/guide/*.md"), func(page string) bool {
		return slices.Contains(first, page) || slices.Contains(last, page)
	})
	for _, page := range slices.Concat(first, others, last) {
		if page == last[0] {
			m.run("another host", `systemctl disable --now patchbay patchbay-local; rm -r `+site+`; systemd-tmpfiles --create patchbay.conf`)
		}
		m.run(filepath.Base(page), "set -x\n"+sh(t, "../guide package "+page))
	}
}

// TestSameBytesTwice makes the packages a second time from the same programs.
func TestSameBytesTwice(t *testing.T) {
	sums, err := os.ReadFile("../../dist/SHA256SUMS")
	if err != nil {
		t.Fatal("run make package first")
	}
	if again := filepath.Join(repackage(t, release{source: "../..", built: "../../.cache/package"}, ""), "SHA256SUMS"); string(read(t, again)) != string(sums) {
		t.Errorf("the checksums differ:\n%s\n%s", sums, read(t, again))
	}
}

// TestImage runs the container image as container engines do: in namespaces with
// nothing but its own files, as its own user. Its programs are those of the tarball.
func TestImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("this test needs root")
	}
	root := t.TempDir()
	sh(t, "tar -xf "+glob(t, "../../dist/*-image.tar")+" -C "+root+" --wildcards '*.tar.gz' && cat "+root+"/*.tar.gz | tar -xz -C "+root+" && mkdir "+root+"/proc")
	sh(t, "tar -xOf "+glob(t, "../../dist/*-image.tar")+` --wildcards 'sha256:*' | jq -e '.os == "linux" and .architecture != "" and .config.User != ""' `)
	out := sh(t, `unshare --mount --pid --fork --kill-child --net --ipc --uts sh -ec '
		ip link set lo up
		mount -t proc proc "$0/proc"
		patchbay() { chroot --userspec=`+fmt.Sprint(containerUser)+` "$0" /usr/bin/patchbay "$@"; }
		export PATCHBAY_CONFIG=`+stateFolder+`
		patchbay init --authority testbed.example.org --listen 127.0.0.1:8443 `+stateFolder+`
		patchbay check
		patchbay serve 2>/dev/null | head -n 1 &
		timeout 60 sh -c "until test -S $0`+stateFolder+`/admin.sock; do sleep 0.1; done"
		patchbay user alice
		patchbay slice first --owner alice
		patchbay call --user alice --slice first --api-version 2 CreateSliver `+stateFolder+`/request.xml --wait
		patchbay slivers' `+root)
	if n := strings.Count(out, " ready "); n < 2 {
		t.Errorf("%d nodes are ready, want 2:\n%s", n, out)
	}
}

// previous is the package of the version before, from which users upgrade: the file in
// PATCHBAY_PREVIOUS, or the programs of today under an older version.
func previous(t *testing.T, r release) string {
	if name := os.Getenv("PATCHBAY_PREVIOUS"); name != "" {
		return name
	}
	return glob(t, filepath.Join(repackage(t, r, "0.0.1"), "*.deb"))
}

// repackage packages the built programs again, as the same or another version, and returns the
// folder.
func repackage(t *testing.T, r release, version string) string {
	t.Helper()
	deb := filepath.Base(glob(t, "../../dist/*.tar.gz"))
	r.version = regexp.MustCompile(`^patchbay-(.*)-linux-`).FindStringSubmatch(deb)[1]
	seconds, err := strconv.ParseInt(strings.TrimSpace(sh(t, "git log -1 --format=%ct")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if version != "" {
		r.version = version
	}
	r.date, r.dist = time.Unix(seconds, 0).UTC(), t.TempDir()
	if err := write(r); err != nil {
		t.Fatal(err)
	}
	return r.dist
}

// machine is a Debian of its own, with systemd, in namespaces of this host.
type machine struct {
	t    *testing.T
	root string
	pid  int
}

// bootScript makes the namespaces' file systems and becomes systemd. The machine sees
// the cgroups below its own only.
const bootScript = `
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$1/sys/fs/cgroup"
	mkdir "$1/sys/fs/cgroup/systemd"
	mount -t cgroup -o none,name=systemd cgroup "$1/sys/fs/cgroup/systemd"
fi
for d in run tmp dev; do mount -t tmpfs -o mode=1777 tmpfs "$1/$d"; done
chmod 755 "$1/run" "$1/dev"
for d in null zero full random urandom tty; do touch "$1/dev/$d"; mount --bind "/dev/$d" "$1/dev/$d"; done
mkdir "$1/dev/pts" "$1/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
ln -s pts/ptmx "$1/dev/ptmx"
ln -s /proc/self/fd "$1/dev/fd"
cd "$1"
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
`

// boot starts the machine and ends it with the test.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test needs root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Fatal("this test needs mmdebstrap")
	}
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "debian")}
	base := "../../.cache/debian.tar"
	if _, err := os.Stat(base); err != nil {
		sh(t, "mmdebstrap --quiet --variant=minbase --include="+debianPackages+" bookworm ../../.cache/debian.new.tar && mv ../../.cache/debian.new.tar "+base)
	}
	sh(t, "mkdir "+m.root+" && tar -xf "+base+" -C "+m.root)
	group := "/sys/fs/cgroup/systemd/patchbay-package"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group = "/sys/fs/cgroup/patchbay-package"
	}
	c := exec.Command("sh", "-c", `mkdir -p "$0" && echo $$ >"$0/cgroup.procs" && exec unshare --kill-child --pid --fork --mount --uts --ipc --net --cgroup sh -c "$1" boot "$2"`, group, bootScript, m.root)
	log, err := os.Create(filepath.Join(t.TempDir(), "boot.log"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // and with it the machine: --kill-child
		_ = c.Wait()
		_, _ = exec.Command("sh", "-c", `find "$0" -depth -type d -exec rmdir {} +`, group).CombinedOutput()
		if t.Failed() {
			t.Logf("boot: %s", read(t, log.Name()))
		}
	})
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
		if m.pid, _ = strconv.Atoi(strings.TrimSpace(string(children))); m.pid == 0 {
			continue
		}
		if state, _ := m.enter("systemctl is-system-running --wait").Output(); slices.Contains([]string{"running\n", "degraded\n"}, string(state)) {
			return m
		}
	}
	t.Fatal("systemd did not boot")
	return nil
}

// enter is a command of root's login shell in the machine.
func (m *machine) enter(script string) *exec.Cmd {
	c := exec.Command("nsenter", "--target", strconv.Itoa(m.pid), "--all", "sh", "-ec", "cd /root\n"+script)
	c.Dir = "/" // the same in the machine
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LANG=C.UTF-8"}
	return c
}

// run runs a script in the machine as a test of its own. The tests after one that failed
// are not run, since they build on it.
func (m *machine) run(name, script string) {
	m.t.Helper()
	if !m.t.Run(name, func(t *testing.T) {
		if out, err := m.enter(script).CombinedOutput(); err != nil {
			log, _ := m.enter("journalctl -n 30 --no-pager -u patchbay; systemctl --failed --no-pager").CombinedOutput()
			t.Fatalf("%v\n%s\n%s\n%s", err, script, out, log)
		}
	}) {
		m.t.FailNow()
	}
}

// copy copies a file of the host into the machine.
func (m *machine) copy(from, to string) { sh(m.t, "cp "+from+" "+filepath.Join(m.root, to)) }

func sh(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// glob is the only file that fits a pattern.
func glob(t *testing.T, pattern string) string {
	t.Helper()
	found := matches(t, pattern)
	if len(found) != 1 {
		t.Fatalf("%d files fit %s; run make package first", len(found), pattern)
	}
	return found[0]
}

func matches(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
