package experiment

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"patchbay/am/testkit/need"
	"patchbay/am/testkit/wait"
)

// startSSHD starts an OpenSSH server on loopback that lets key in, and returns its port
// and the path of its log.
func startSSHD(t *testing.T, program, dir, name, key string) (port int, log string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := func(suffix string) string { return filepath.Join(dir, name+suffix) }
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path("-host")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nLogLevel VERBOSE\n", port, path("-host"), key+".pub")
	if err := os.WriteFile(path(".conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-D", "-f", path(".conf"), "-E", path(".log"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	wait.Until(t, "sshd listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return port, path(".log")
}

// TestLoginThroughAGateway logs in with OpenSSH and what SSHConfig writes for a manifest with
// a proxy: first ssh -F, then by Include.
func TestLoginThroughAGateway(t *testing.T) {
	need.SSH(t)
	sshd := need.Tool(t, "sshd")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "a key") // a blank, as home folders may have
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	plain := filepath.Join(dir, "key") // sshd takes a blank for the end of a path
	if err := os.Link(key+".pub", plain+".pub"); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		const separation = "/run/sshd" // where sshd of root separates privileges
		if err := os.Mkdir(separation, 0o755); err == nil {
			t.Cleanup(func() { _ = os.Remove(separation) })
		}
	}
	gatewayPort, gatewayLog := startSSHD(t, sshd, dir, "gateway", plain)
	nodePort, _ := startSSHD(t, sshd, dir, "node", plain)
	manifest := manifestOf("server", fmt.Sprintf(`<p:proxy proxy="%[1]s@127.0.0.1:%[2]d" for="%[1]s@127.0.0.1:%[3]d"/>`, me.Username, gatewayPort, nodePort)+
		loginElement(me.Username, "127.0.0.1", strconv.Itoa(gatewayPort))+loginElement(me.Username, "127.0.0.1", strconv.Itoa(nodePort)))
	m, err := ReadManifest(manifest, "")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "ssh_config")
	text := SSHConfig(Hosts("exp", m.Nodes), SSHFiles{key, filepath.Join(dir, "known hosts")})
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	including := filepath.Join(dir, "including")
	if err := os.WriteFile(including, []byte("Include "+config+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, file := range []string{config, including} {
		out, err := exec.Command("ssh", "-F", file, "-o", "BatchMode=yes", "server.exp.patchbay", "echo $SSH_CONNECTION").CombinedOutput()
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " "+strconv.Itoa(nodePort)) {
			t.Fatalf("ssh -F %s: %v\n%s\n%s", file, err, out, text)
		}
		log, err := os.ReadFile(gatewayLog)
		if got := strings.Count(string(log), "Accepted publickey"); err != nil || got != n+1 {
			t.Errorf("the gateway let %d logins through, want %d: %v", got, n+1, err)
		}
	}
}
