package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type machine struct {
	cache   *cache
	options options
	initrd  string
	status  string // file to which the guest writes the exit status of its commands
}

// boot runs the guest to its end and returns the exit status of its commands.
func (m machine) boot(ctx context.Context, w io.Writer) (int, error) {
	o := m.options
	// no_timer_check: on a busy host the kernel's test of the emulated timer may fail.
	arguments := "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off random.trust_cpu=on"
	if o.cgroup == "v2" {
		arguments += " cgroup_no_v1=all"
	}
	args := []string{
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "8192",
		"-kernel", m.cache.kernel, "-initrd", m.initrd, "-append", arguments,
		"-drive", "if=virtio,format=raw,snapshot=on,file=" + m.cache.root,
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + o.disk,
		"-device", "virtio-rng-pci",
		"-nic", "none", "-display", "none", "-monitor", "none", "-no-reboot",
		"-serial", "stdio", "-serial", "file:" + m.status,
	}
	for _, share := range []string{"qemu", "seabios"} {
		args = append(args, "-L", filepath.Join(m.cache.host, "usr/share", share))
	}
	q := m.cache.program(ctx, "qemu-system-x86_64", args...)
	var complaints bytes.Buffer
	q.Stdout, q.Stderr = plain{w}, &complaints
	q.WaitDelay = 5 * time.Second
	start := time.Now()
	err := q.Run()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("QEMU: %w: %s", err, strings.TrimSpace(complaints.String()))
	}
	text, err := os.ReadFile(m.status)
	if err != nil {
		return 0, err
	}
	status, found := 0, false
	for line := range strings.Lines(string(text)) {
		if word, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word == "status" {
			status, err = strconv.Atoi(value)
			found = err == nil
		}
	}
	if !found {
		return 0, errors.New("the guest ended before its commands; see the last lines of its output for the reason")
	}
	fmt.Fprintf(w, "guest: ended after %.1f s with exit status %d\n", time.Since(start).Seconds(), status)
	return status, nil
}

// plain is a writer that removes the carriage returns that a serial line adds.
type plain struct{ w io.Writer }

func (p plain) Write(b []byte) (int, error) {
	if _, err := p.w.Write(bytes.ReplaceAll(b, []byte{'\r'}, nil)); err != nil {
		return 0, err
	}
	return len(b), nil
}
