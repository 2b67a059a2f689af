package gateway

import (
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/inventory/local/agent"
)

// maxModes is the longest list of terminal modes; all that exist need 300 bytes.
const maxModes = 4 << 10

// pty takes the request for a terminal (RFC 4254, 6.2).
func (s *session) pty(payload []byte) bool {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &p) != nil || s.started || s.term != nil || len(p.Modes) > maxModes {
		return false
	}
	s.term = &agent.Terminal{Name: termName(p.Term), Rows: size(p.Rows), Cols: size(p.Cols), Modes: []byte(p.Modes)}
	return true
}

// termName is a TERM that names no file and obeys no shell.
func termName(name string) string {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '+', r == '.':
		default:
			return "dumb"
		}
	}
	if name == "" || len(name) > 64 || name[0] == '.' {
		return "dumb"
	}
	return name
}

func size(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

// resize takes a change of the window.
func (s *session) resize(payload []byte) bool {
	var w struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &w) != nil || s.term == nil {
		return false
	}
	window := &unix.Winsize{Row: size(w.Rows), Col: size(w.Cols), Xpixel: size(w.Width), Ypixel: size(w.Height)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.size = window
		return true
	}
	return !s.over && setSize(s.cmd.terminal(), window)
}
