package agent

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// setModes sets the modes that a user asked for. What the terminal cannot do is
// left as it is.
func setModes(fd int, modes []byte) error {
	if len(modes) == 0 {
		return nil
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	applyModes(t, modes)
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// applyModes reads encoded modes (RFC 4254, 8): opcodes below 160 with a number
// each, until one that is 0 or unknown in form.
func applyModes(t *unix.Termios, modes []byte) {
	for len(modes) >= 5 && modes[0] != 0 && modes[0] < 160 {
		code, value := modes[0], binary.BigEndian.Uint32(modes[1:])
		modes = modes[5:]
		if at, is := specialOf(code); is {
			// 255 says that the character is off; Linux says it with 0.
			if value == 255 {
				value = 0
			}
			t.Cc[at] = byte(value)
			continue
		}
		flags, bit := flagOf(t, code)
		switch {
		case flags == nil:
		case value != 0:
			*flags |= bit
		default:
			*flags &^= bit
		}
	}
}

// specialOf is which special character an opcode sets.
func specialOf(code byte) (int, bool) {
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

// flagOf is which flag an opcode sets. Speeds and what makes no sense for a
// pseudo-terminal is left out.
func flagOf(t *unix.Termios, code byte) (*uint32, uint32) {
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
