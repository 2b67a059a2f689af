package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/wait"
)

// guideFiles returns the files whose commands are tested, by name.
func guideFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{"README": "../../../README.md"}
	for _, file := range files {
		named[strings.TrimSuffix(filepath.Base(file), ".md")] = file
	}
	return named
}

// wideLine is a line of more than 120 characters that is no row of a table.
var wideLine = regexp.MustCompile(`(?m)^[^|\n][^\n]{120,}$`)

// linkedFile is a link to a file of the repository.
var linkedFile = regexp.MustCompile(`\]\(([\w./-]+)[)#]`)

// TestGuides runs the commands of README.md and of each guide as they are written, each
// page in a new folder, on simulated nodes.
func TestGuides(t *testing.T) {
	for name, file := range guideFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if line := wideLine.FindString(program.ReadFile(t, file)); line != "" {
				t.Errorf("this line has more than 120 characters: %s", line)
			}
			for _, link := range linkedFile.FindAllStringSubmatch(program.ReadFile(t, file), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), link[1])); err != nil {
					t.Errorf("a link leads nowhere: %v", err)
				}
			}
			runGuide(t, file, "user")
			for _, kind := range []string{"root", "package", "network", "clone"} {
				if strings.Contains(program.ReadFile(t, file), "\n```sh "+kind) {
					guideScript(t, file, kind)
				}
			}
		})
	}
}

// TestOnHostGuides runs the same with the commands for root, which make real nodes.
func TestOnHostGuides(t *testing.T) {
	t.Parallel() // it mostly waits
	requireLocalHost(t)
	for name, file := range guideFiles(t) {
		if !strings.Contains(program.ReadFile(t, file), "\n```sh root") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runGuide(t, file, "user root")
		})
	}
}

// guideScript returns the commands of a guide as a script, which bash can read.
func guideScript(t testing.TB, file, kinds string) string {
	t.Helper()
	out, err := exec.Command("../../../.ci/guide", kinds, file).Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	check := exec.Command("bash", "-n")
	check.Stdin = bytes.NewReader(out)
	if said, err := check.CombinedOutput(); err != nil {
		t.Fatalf("the commands for %s: %v\n%s", kinds, err, said)
	}
	return string(out)
}

// guidePorts are the ports that guides name: those of the site, of the metrics and of a
// second site.
var guidePorts = regexp.MustCompile(`\b(8443|8444|9443|9444|9464)\b`)

// siteOfGuide matches a command that creates a site with simulated nodes, whose delays are made
// short.
var siteOfGuide = regexp.MustCompile(`(?m)^patchbay init --authority .* (\S+)$`)

// goCache returns the folder of go's cache, which HOME would move.
var goCache = sync.OnceValues(func() ([]byte, error) { return exec.Command("go", "env", "GOCACHE").Output() })

// runGuide runs the commands of a guide in a new folder and ends what they leave.
func runGuide(t *testing.T, file, kinds string) {
	bin, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	free := map[string]string{}
	for _, port := range []string{"8443", "9443", "9464"} {
		n := freePorts(t)
		free[port] = strconv.Itoa(n)
		free[port[:3]+"4"] = strconv.Itoa(n + 1)
	}
	script := siteOfGuide.ReplaceAllString(guidePorts.ReplaceAllStringFunc(guideScript(t, file, kinds), func(port string) string { return free[port] }),
		`$0; sed -i 's/^\(  \(make\|start\|stop\|restart\|users\|remove\|install\|execute\)\): [0-9a-z]*/\1: 10ms/' $1/providers/simulated.yaml`)
	home, tools := t.TempDir(), t.TempDir()
	program.Write(t, filepath.Join(tools, "script"), script)
	// sudo would drop the PATH. The test runs as root if the guide needs root.
	program.Write(t, filepath.Join(tools, "sudo"), "#!/bin/sh\nexec \"$@\"\n")
	if err := os.Chmod(filepath.Join(tools, "sudo"), 0o755); err != nil {
		t.Fatal(err)
	}
	cache, err := goCache()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOCACHE="+strings.TrimSpace(string(cache)), "PATH="+bin+":"+tools+":"+os.Getenv("PATH"), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, ".local", "state"),
		"TMPDIR="+tools, "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off", "PS4=+ $LINENO: ")

	ctx, cancel := context.WithTimeout(t.Context(), 3*wait.Limit(t)) // a guide has many commands
	defer cancel()
	var out wait.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-eux", "-o", "pipefail", filepath.Join(tools, "script"))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = home, env, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Not cmd.Wait: it would wait for background processes, which hold the output open.
	status, err := cmd.Process.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	_ = cmd.Wait()
	if err != nil || !status.Success() {
		t.Errorf("%s: %v, %v; see the line of the last command:\n%s", file, status, err, &out)
	}
	end := func(program string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.Dir, cmd.Env = home, env
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %q: %v\n%s", program, args, err, said)
		}
	}
	end("patchbay", "down", "--all", "--yes")
	settings, _ := filepath.Glob(filepath.Join(home, "*", "providers", "local.yaml"))
	for _, file := range settings {
		end("patchbay-local", "clean", file)
	}
}

// freePorts returns the first of three free ports in a row.
func freePorts(t *testing.T) (port int) {
	t.Helper()
	wait.Until(t, "three ports in a row are free", func() bool {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return false
		}
		defer first.Close()
		port = first.Addr().(*net.TCPAddr).Port
		for i := 1; i <= 2; i++ {
			next, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+i))
			if err != nil {
				return false
			}
			defer next.Close()
		}
		return true
	})
	return port
}
