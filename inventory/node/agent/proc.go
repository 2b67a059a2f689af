package agent

import (
	"bytes"
	"os"
	"strconv"
)

type process struct {
	pid, parent int
	name        string
	uids        [3]uint32 // real, effective, saved
	dead        bool
	stopped     bool // by a signal or its tracer
}

// eachProcess calls f for each process of the node. It skips those that it cannot read.
func eachProcess(f func(process)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			text, err := os.ReadFile("/proc/" + name + "/status")
			if err != nil {
				continue
			}
			f(parseStatus(pid, text))
		}
		if err != nil {
			return
		}
	}
}

func parseStatus(pid int, text []byte) process {
	p := process{pid: pid}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "Name":
			p.name = string(value)
		case "State":
			state := value[:min(len(value), 1)]
			p.dead = bytes.ContainsAny(state, "ZX")
			p.stopped = bytes.ContainsAny(state, "Tt")
		case "PPid":
			p.parent, _ = strconv.Atoi(string(value))
		case "Uid":
			for i, field := range bytes.Fields(value) {
				if n, err := strconv.ParseUint(string(field), 10, 32); err == nil && i < len(p.uids) {
					p.uids[i] = uint32(n)
				}
			}
			return p
		}
	}
	return p
}
