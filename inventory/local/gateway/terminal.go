package gateway

import (
	"encoding/binary"
	"os"

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
	if ssh.Unmarshal(payload, &p) != nil || s.cmd != nil || s.term != nil || len(p.Modes) > maxModes {
		return false
	}
	s.term = &agent.Terminal{Name: termName(p.Term), Rows: size(p.Rows), Cols: size(p.Cols)}
	s.modes = []byte(p.Modes)
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
	if s.cmd == nil {
		s.term.Rows, s.term.Cols = size(w.Rows), size(w.Cols)
		return true
	}
	return control(s.cmd.terminal(), func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{
			Row: size(w.Rows), Col: size(w.Cols), Xpixel: size(w.Width), Ypixel: size(w.Height),
		})
	}) == nil
}

// control calls f with the descriptor of a file, which stays as it is.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// setModes sets the modes that a client asked for. What the terminal cannot do
// is left as it is.
func setModes(master *os.File, modes []byte) {
	control(master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		apply(t, modes)
		return unix.IoctlSetTermios(fd, unix.TCSETS, t)
	})
}

// apply reads encoded modes (RFC 4254, 8): opcodes below 160 with a number each,
// until one that is 0 or unknown in form.
func apply(t *unix.Termios, modes []byte) {
	for len(modes) >= 5 && modes[0] != 0 && modes[0] < 160 {
		code, value := modes[0], binary.BigEndian.Uint32(modes[1:])
		modes = modes[5:]
		if at, is := special(code); is {
			// 255 says that the character is off; Linux says it with 0.
			if value == 255 {
				value = 0
			}
			t.Cc[at] = byte(value)
			continue
		}
		flags, bit := flag(t, code)
		switch {
		case flags == nil:
		case value != 0:
			*flags |= bit
		default:
			*flags &^= bit
		}
	}
}

// special is which special character an opcode sets.
func special(code byte) (int, bool) {
	switch code {
	case 1:
		return unix.VINTR, true
	case 2:
		return unix.VQUIT, true
	case 3:
		return unix.VERASE, true
	case 4:
		return unix.VKILL, true
	case 5:
		return unix.VEOF, true
	case 6:
		return unix.VEOL, true
	case 7:
		return unix.VEOL2, true
	case 8:
		return unix.VSTART, true
	case 9:
		return unix.VSTOP, true
	case 10:
		return unix.VSUSP, true
	case 12:
		return unix.VREPRINT, true
	case 13:
		return unix.VWERASE, true
	case 14:
		return unix.VLNEXT, true
	case 18:
		return unix.VDISCARD, true
	}
	return 0, false
}

// flag is which flag an opcode sets. Speeds and what makes no sense for a
// pseudo-terminal is left out.
func flag(t *unix.Termios, code byte) (*uint32, uint32) {
	switch code {
	case 30:
		return &t.Iflag, unix.IGNPAR
	case 31:
		return &t.Iflag, unix.PARMRK
	case 32:
		return &t.Iflag, unix.INPCK
	case 33:
		return &t.Iflag, unix.ISTRIP
	case 34:
		return &t.Iflag, unix.INLCR
	case 35:
		return &t.Iflag, unix.IGNCR
	case 36:
		return &t.Iflag, unix.ICRNL
	case 37:
		return &t.Iflag, unix.IUCLC
	case 38:
		return &t.Iflag, unix.IXON
	case 39:
		return &t.Iflag, unix.IXANY
	case 40:
		return &t.Iflag, unix.IXOFF
	case 41:
		return &t.Iflag, unix.IMAXBEL
	case 42:
		return &t.Iflag, unix.IUTF8
	case 50:
		return &t.Lflag, unix.ISIG
	case 51:
		return &t.Lflag, unix.ICANON
	case 52:
		return &t.Lflag, unix.XCASE
	case 53:
		return &t.Lflag, unix.ECHO
	case 54:
		return &t.Lflag, unix.ECHOE
	case 55:
		return &t.Lflag, unix.ECHOK
	case 56:
		return &t.Lflag, unix.ECHONL
	case 57:
		return &t.Lflag, unix.NOFLSH
	case 58:
		return &t.Lflag, unix.TOSTOP
	case 59:
		return &t.Lflag, unix.IEXTEN
	case 60:
		return &t.Lflag, unix.ECHOCTL
	case 61:
		return &t.Lflag, unix.ECHOKE
	case 62:
		return &t.Lflag, unix.PENDIN
	case 70:
		return &t.Oflag, unix.OPOST
	case 71:
		return &t.Oflag, unix.OLCUC
	case 72:
		return &t.Oflag, unix.ONLCR
	case 73:
		return &t.Oflag, unix.OCRNL
	case 74:
		return &t.Oflag, unix.ONOCR
	case 75:
		return &t.Oflag, unix.ONLRET
	}
	return nil, 0
}
