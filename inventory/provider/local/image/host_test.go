package image

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"patchbay/am/testkit/require"
)

// planted is in every file of the fake host that no node may see.
const planted = "PLANTED"

// fakeHost creates a host's root file system: files by path, symbolic links as "-> TARGET".
func fakeHost(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(path, text string) {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(to, at); err != nil {
				t.Fatal(err)
			}
			return
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "usr/bin/") {
			mode = 0o755
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"bin": "-> usr/bin", "sbin": "-> usr/sbin", "lib": "-> usr/lib", "lib64": "-> usr/lib64",
		"usr/bin/dash": "", "usr/bin/sh": "-> dash", "usr/bin/bash": "", "usr/sbin/x": "", "usr/lib/x": "", "usr/lib64/x": "",
		"etc/passwd": "root:x:0:0:root:/root:/bin/zsh\n",
		"etc/group":  "root:x:0:\nshadow:x:42:\nsudo:x:27:\n",
	} {
		if _, given := files[path]; !given {
			put(path, text)
		}
	}
	for path, text := range files {
		put(path, text)
	}
	return root
}

func md5Sum(text string) string {
	s := md5.Sum([]byte(text))
	return hex.EncodeToString(s[:])
}

// buildFakeSkeleton builds the skeleton of a fake host.
func buildFakeSkeleton(t *testing.T, root string) string {
	t.Helper()
	to := t.TempDir()
	if err := buildSkeleton(t.Context(), root, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestSkeletonContainsNothingOfTheOperator(t *testing.T) {
	require.Root(t)
	const bashrc = "# as shipped\n"
	secret := planted + " token\n"
	files := map[string]string{
		"etc/bash.bashrc":            bashrc,
		"etc/login.defs":             secret, // changed by the operator
		"etc/ssh/ssh_config":         secret,
		"etc/ssh/ssh_config.d/site":  secret,
		"etc/pam.d/su":               secret,
		"etc/security/limits.conf":   secret,
		"etc/profile":                secret,
		"etc/profile.d/proxy.sh":     "export http_proxy=http://" + planted + "\n",
		"etc/skel/.bashrc":           secret,
		"etc/wgetrc":                 secret,
		"etc/python3/debian_config":  secret,
		"etc/java-17/net.properties": "http.proxyHost=" + planted + "\n",
		"etc/iproute2/rt_tables":     secret,

		"etc/environment":                    "https_proxy=http://" + planted + "\n",
		"etc/apt/sources.list":               "deb https://user:" + planted + "@example.org/ bookworm main\n",
		"etc/apt/sources.list.d/a.list":      "deb https://user:" + planted + "@example.org/ bookworm main\n",
		"etc/apt/apt.conf":                   secret,
		"etc/apt/apt.conf.d/95proxy":         secret,
		"etc/apt/auth.conf":                  secret,
		"etc/apt/auth.conf.d/site":           secret,
		"etc/apt/trusted.gpg.d/site.asc":     secret,
		"etc/apt/preferences.d/site":         secret,
		"etc/cron.d/site":                    secret,
		"etc/crontab":                        secret,
		"etc/cron.daily/site":                secret,
		"etc/systemd/system/a.service":       secret,
		"etc/init.d/site":                    secret,
		"etc/default/site":                   secret,
		"etc/ssh/ssh_host_ed25519_key":       secret,
		"etc/ssh/sshd_config":                secret,
		"etc/shadow":                         "root:" + planted + ":19000:0:99999:7:::\n",
		"etc/gshadow":                        "root:" + planted + "::\n",
		"etc/subuid":                         planted + ":100000:65536\n",
		"etc/machine-id":                     secret,
		"etc/hostname":                       secret,
		"etc/hosts":                          "192.0.2.1 " + planted + "\n",
		"etc/networks":                       planted + " 192.0.2.0\n",
		"etc/resolv.conf":                    "search " + planted + "\n",
		"etc/motd":                           secret,
		"etc/issue":                          secret,
		"etc/fstab":                          secret,
		"etc/sudoers":                        secret,
		"etc/sudoers.d/site":                 secret,
		"etc/nsswitch.conf":                  "passwd: files ldap # " + planted + "\n",
		"etc/ssl/private/site.key":           secret,
		"etc/ssl/certs/site.pem":             secret,
		"etc/ssl/certs/ca-certificates.crt":  "authority\n" + secret,
		"etc/ssl/certs/own.pem":              "-> /usr/local/share/ca-certificates/" + planted + ".crt",
		"etc/ssl/certs/abcd1234.0":           "-> " + planted + ".pem",
		"etc/ssl/certs/" + planted + ".pem":  secret,
		"etc/ssl/certs/good.pem":             "-> /usr/share/ca-certificates/good.crt",
		"etc/ssl/certs/12345678.0":           "-> good.pem",
		"usr/share/ca-certificates/good.crt": "authority",
		"etc/alternatives/editor":            "-> /usr/bin/vi",
		"etc/alternatives/site":              "-> /opt/" + planted,
		"etc/alternatives/up":                "-> ../../../root/" + planted,
		"etc/alternatives/local":             "-> /usr/local/bin/" + planted,
		"etc/alternatives/twice":             "-> /etc/alternatives/site2",
		"etc/alternatives/site2":             "-> /srv/" + planted,
		"etc/localtime":                      "-> /srv/" + planted,
		"etc/rmt":                            "-> ../../" + planted,
		"etc/ld.so.cache":                    "magic\x00libx.so\x00/opt/" + planted + "/libx.so\x00",

		"etc/timezone":   "Etc/UTC\n",
		"etc/protocols":  secret, // mode 0640 below
		"etc/services":   secret, // another owner below
		"etc/rpc":        secret, // writable to a group below
		"etc/ethertypes": "-> /root/" + planted,
		"etc/perl/a":     secret, // below a folder that is not public

		"etc/passwd": "root:" + planted + ":0:0:" + planted + ":/home/" + planted + ":/opt/" + planted + "\n" +
			"daemon:x:1:1:" + planted + ":/usr/local/" + planted + ":/usr/local/bin/" + planted + "\n" +
			planted + ":x:1000:1000:A person:/home/a:/bin/bash\n" +
			planted + "2:x:0:0:a second root:/root:/bin/bash\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group": "root:x:0:" + planted + "\nsudo:" + planted + ":27:" + planted + "\nshadow:x:42:\n" + planted + ":x:1000:\nnogroup:x:65534:\n",

		"root/.ssh/id_ed25519": secret, "home/a/.netrc": secret, "opt/a": secret, "srv/a": secret,
		"usr/local/bin/a": secret, "var/log/a": secret, "var/cache/debconf/config.dat": secret,
		"var/lib/a": secret, "tmp/a": secret, "var/tmp/a": secret, "run/a": secret, "mnt/a": secret, "boot/a": secret,
		"var/lib/apt/lists/a": secret, "var/spool/cron/crontabs/root": secret, "var/backups/a": secret,

		"var/lib/dpkg/info/secret.postinst": secret, // mode 0700 below
		"var/lib/dpkg/info/bash.list":       "/usr/bin/bash\n",
		"var/lib/dpkg/info/bash.md5sums":    planted + "\n",
		"var/lib/dpkg/alternatives/editor":  "auto\n/usr/bin/editor\n\n/usr/bin/vi\n30\n",
		"var/lib/dpkg/alternatives/site":    "auto\n/usr/bin/site\n\n/opt/" + planted + "\n30\n",
		"var/lib/dpkg/statoverride":         "root " + planted + " 710 /usr/bin/x\nroot shadow 2755 /usr/bin/y\n" + planted + " root 755 /z\n",
		"var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\nConffiles:\n /etc/bash.bashrc " + md5Sum(bashrc) +
			"\n /etc/login.defs " + md5Sum("as shipped") + "\n /etc/perl/a " + md5Sum(secret) + "\n /etc/ssh/ssh_config newconffile\nVersion: 1\n /etc/wgetrc " + md5Sum(secret) + "\n",
		"var/lib/dpkg/status-old": secret,
	}
	root := fakeHost(t, files)
	chmod := func(path string, mode uint32) {
		if err := unix.Chmod(filepath.Join(root, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod("etc/protocols", 0o640)
	chmod("etc/rpc", 0o664)
	chmod("etc/perl", 0o750)
	chmod("var/lib/dpkg/info/secret.postinst", 0o700)
	if err := os.Chown(filepath.Join(root, "etc/services"), 1000, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "etc/mime.types"), 0o644); err != nil {
		t.Fatal(err)
	}

	to := buildFakeSkeleton(t, root)
	got := map[string]bool{}
	filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(to, path)
		got[rel] = true
		text := rel
		switch {
		case e.Type() == fs.ModeSymlink:
			link, _ := os.Readlink(path)
			text += link
		case e.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		case !e.IsDir():
			t.Errorf("%s is a %v", rel, e.Type())
		}
		if strings.Contains(text, planted) {
			t.Errorf("%s has text that no node may see: %.100q", rel, text)
		}
		return nil
	})
	for _, path := range []string{"etc/bash.bashrc", "etc/timezone", "etc/alternatives/editor", "etc/ssl/certs/good.pem", "etc/ssl/certs/12345678.0",
		"var/lib/dpkg/info/bash.list", "var/lib/dpkg/status", "var/lib/dpkg/alternatives/editor"} {
		if !got[path] {
			t.Errorf("the skeleton lacks %s", path)
		}
	}
	for path, want := range map[string]string{
		"etc/bash.bashrc":                   bashrc,
		"etc/passwd":                        "root:x:0:0::/root:/bin/bash\ndaemon:x:1:1::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
		"etc/group":                         "root:x:0:\nsudo:x:27:\nshadow:x:42:\nnogroup:x:65534:\n",
		"etc/shadow":                        "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
		"etc/ssl/certs/ca-certificates.crt": "authority\n",
		"etc/resolv.conf":                   resolvConf,
		"var/lib/dpkg/statoverride":         "root shadow 2755 /usr/bin/y\n",
	} {
		if b, _ := os.ReadFile(filepath.Join(to, path)); string(b) != want {
			t.Errorf("%s\n got %q\nwant %q", path, b, want)
		}
	}
}

func TestSkeletonOwnersAndModes(t *testing.T) {
	require.Root(t)
	root := fakeHost(t, map[string]string{"usr/bin/sudo": ""})
	old := unix.Umask(0o077) // must not matter
	to := buildFakeSkeleton(t, root)
	unix.Umask(old)
	filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(to, path)
		if st.Uid != 0 {
			t.Errorf("%s belongs to %d", rel, st.Uid)
		}
		switch writable := st.Mode & 0o022; {
		case e.Type() == fs.ModeSymlink || writable == 0:
		case e.IsDir() && st.Mode&unix.S_ISVTX != 0: // tmp
		case st.Mode&0o002 == 0 && st.Gid != 0: // var/mail and others
		case st.Mode&0o002 == 0 && strings.HasPrefix(rel, "var/"):
		default:
			t.Errorf("%s has mode %o, group %d", rel, st.Mode&0o7777, st.Gid)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o6111 != 0 {
			t.Errorf("%s is a program (mode %o)", rel, st.Mode&0o7777)
		}
		return nil
	})
	for path, want := range map[string]string{
		"tmp": "1777 0:0", "var/tmp": "1777 0:0", "root": "700 0:0", "etc": "755 0:0", "etc/shadow": "640 0:42",
		"etc/gshadow": "640 0:42", "etc/sudoers": "440 0:0", "etc/sudoers.d": "750 0:0", "etc/passwd": "644 0:0", "usr": "755 0:0",
		"var": "755 0:0", "var/lib": "755 0:0", "proc": "555 0:0",
	} {
		var st unix.Stat_t
		unix.Lstat(filepath.Join(to, path), &st)
		if got := fmt.Sprintf("%o %d:%d", st.Mode&0o7777, st.Uid, st.Gid); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"bin": "usr/bin", "lib64": "usr/lib64", "var/run": "/run", "etc/mtab": "../proc/self/mounts"} {
		if got, _ := os.Readlink(filepath.Join(to, path)); got != want {
			t.Errorf("%s leads to %q, want %q", path, got, want)
		}
	}
}

func TestHostsThatCannotBeShared(t *testing.T) {
	require.Root(t)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"UsrNotMerged", map[string]string{"bin": "", "usr/bin/sh": ""}, "apt install usrmerge"},
		{"LinkElsewhere", map[string]string{"lib": "-> opt/lib"}, "/lib of this host is not a link into /usr"},
		{"NoShell", map[string]string{"usr/bin/sh": "-> missing"}, "no /bin/sh"},
		{"NoRoot", map[string]string{"etc/passwd": "a:x:1:1::/:/bin/sh\n"}, "no account root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := buildSkeleton(t.Context(), fakeHost(t, c.files), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAllowListNamesNothingPrivate(t *testing.T) {
	for _, a := range allowed {
		for _, private := range []string{"shadow", "machine-id", "ssh_host", "sshd", "cron", "systemd", "auth.conf", "sources.list", "environment", "hostname", "resolv", "ssl/private", "sudoers", "NetworkManager", "wpa"} {
			if strings.Contains(a.path, private) {
				t.Errorf("the list takes %s", a.path)
			}
		}
		if !strings.HasPrefix(a.path, "etc/") && !strings.HasPrefix(a.path, "var/lib/dpkg/") && a.path != "var/lib/apt/extended_states" {
			t.Errorf("the list takes %s", a.path)
		}
		if a.rule == all && !strings.HasPrefix(a.path, "var/lib/dpkg/") {
			t.Errorf("the list has everything of %s", a.path)
		}
	}
}

func TestAccountsOfNodes(t *testing.T) {
	has := func(string) bool { return true }
	for _, c := range []struct{ name, in, want string }{
		{"SystemAccountStays", "games:x:5:60:games:/usr/games:/usr/sbin/nologin\n", "games:x:5:60::/usr/games:/usr/sbin/nologin\n"},
		{"PasswordGoes", "games:hash:5:60::/usr/games:/bin/sh\n", "games:x:5:60::/usr/games:/usr/sbin/nologin\n"},
		{"PersonGoes", "a:x:1000:1000::/home/a:/bin/sh\n", ""},
		{"PersonsGroupGoes", "a:x:999:1000::/var/a:/bin/sh\n", ""},
		{"NobodyStays", "nobody:x:65534:65534::/nonexistent:/bin/false\n", "nobody:x:65534:65534::/nonexistent:/bin/false\n"},
		{"SecondRootGoes", "toor:x:0:0::/root:/bin/sh\n", ""},
		{"HomeElsewhereGoes", "svc:x:900:900::/srv/svc:/bin/sync\n", "svc:x:900:900::/nonexistent:/bin/sync\n"},
		{"HomeWithDotsGoes", "svc:x:900:900::/var/../srv:/bin/sync\n", "svc:x:900:900::/nonexistent:/bin/sync\n"},
		{"DirectoryEntryGoes", "+::::::\n", ""},
		{"TooFewFieldsGo", "a:x:1:1\n", ""},
		{"NegativeIDGoes", "a:x:-1:1::/:/bin/sh\n", ""},
		{"StrangeNameGoes", "a b:x:1:1::/:/bin/sh\n", ""},
		{"RootGetsItsHome", "root:x:0:0:r:/home/r:/usr/local/bin/sh\n", "root:x:0:0::/root:/bin/bash\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := systemAccounts(c.in, has); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// runInSkeleton runs a script as root of a node sees the skeleton of this host, on temporary
// overlays in a mount namespace.
func runInSkeleton(t *testing.T, i string, script string) string {
	t.Helper()
	dir := t.TempDir()
	// The overlays are on a tmpfs, since the tests' folder may be an overlay itself.
	cmd := exec.Command("/bin/sh", "-ec", `
		mount -t tmpfs none "$D"; cd "$D"; mkdir up work usrup usrwork m
		mount -t overlay none -o "lowerdir=$I,upperdir=up,workdir=work" m
		mount -t overlay none -o "lowerdir=/usr,upperdir=usrup,workdir=usrwork" m/usr
		mount -t tmpfs none m/usr/local; mkdir m/usr/local/bin; mount -t tmpfs -o mode=755 none m/run
		mount -t proc none m/proc; mount -t tmpfs none m/dev
		for d in null zero urandom; do touch m/dev/$d; mount --bind /dev/$d m/dev/$d; done
		[ -z "$DEB" ] || cp "$DEB" m/tmp/a.deb
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /usr/sbin/chroot m /bin/bash -ec "$S"`)
	cmd.Env = append(os.Environ(), "D="+dir, "I="+i, "S="+script, "DEB="+os.Getenv("DEB"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestSkeletonOfThisHostWorks(t *testing.T) {
	require.Root(t)
	s := openStore(t)
	key, i, err := s.Find(t.Context(), Host)
	if err != nil {
		t.Fatal(err)
	}
	if i.Usr != "/usr" || i.Root != filepath.Join(s.dir, key) {
		t.Errorf("the image is %+v", i)
	}
	t.Run("Accounts", func(t *testing.T) {
		out := runInSkeleton(t, i.Root, `
			id; useradd -m -s /bin/bash exp1; su - exp1 -c 'id -un; pwd; echo $PATH'; getent passwd nobody
			getent services ssh; perl -e 'print "perl\n"'; ls -ld /tmp /root | cut -d' ' -f1; usermod -p '*' exp1; passwd -S exp1 | cut -d' ' -f1,2`)
		for _, want := range []string{"uid=0(root)", "exp1\n/home/exp1\n/usr/local/bin", "nobody:x:65534", "22/tcp", "perl\n", "drwxrwxrwt", "exp1 L"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
	t.Run("Packages", func(t *testing.T) {
		require.Tool(t, "dpkg-deb")
		t.Setenv("DEB", buildPackage(t))
		out := runInSkeleton(t, i.Root, `dpkg -i /tmp/a.deb; hello-patchbay; dpkg -l bash hello-patchbay | grep ^ii | cut -c1-18; dpkg -S /usr/bin/hello-patchbay
			apt-cache policy bash | sed -n 2p; apt-get check; dpkg -r hello-patchbay; dpkg --audit | head -5`)
		for _, want := range []string{"Setting up hello-patchbay", "hello from a package", "ii  bash", "hello-patchbay: /usr/bin/hello-patchbay", "Installed: ", "Removing hello-patchbay"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if low := strings.ToLower(out); strings.Contains(low, "warning") || strings.Contains(low, "missing") {
			t.Errorf("dpkg complains:\n%s", out)
		}
	})
	t.Run("Sudo", func(t *testing.T) {
		require.Tool(t, "sudo")
		out := runInSkeleton(t, i.Root, `useradd -m exp1; echo 'exp1 ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/patchbay; chmod 440 /etc/sudoers.d/patchbay
			visudo -c; su exp1 -c 'sudo -n id -un'`)
		if !strings.HasSuffix(out, "root\n") || !strings.Contains(out, "/etc/sudoers: parsed OK") {
			t.Errorf("sudo says\n%s", out)
		}
	})
	t.Run("Python", func(t *testing.T) {
		if _, err := os.Stat("/usr/bin/python3"); err != nil {
			t.Skip("this host has no python3")
		}
		if out := runInSkeleton(t, i.Root, `/usr/bin/python3 -c 'import ssl, pwd; print(pwd.getpwuid(0).pw_dir, len(ssl.create_default_context().get_ca_certs()) > 50)'`); out != "/root True\n" {
			t.Errorf("python says %q", out)
		}
	})
}

// buildPackage builds a package with dpkg-deb.
func buildPackage(t *testing.T) string {
	dir := t.TempDir()
	os.MkdirAll(dir+"/p/DEBIAN", 0o755)
	os.MkdirAll(dir+"/p/usr/bin", 0o755)
	control := "Package: hello-patchbay\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: says hello\n"
	os.WriteFile(dir+"/p/DEBIAN/control", []byte(control), 0o644)
	os.WriteFile(dir+"/p/usr/bin/hello-patchbay", []byte("#!/bin/sh\necho hello from a package\n"), 0o755)
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", dir+"/p", dir+"/hello.deb").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir + "/hello.deb"
}
