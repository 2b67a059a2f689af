package agent

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// setModes ignores unsupported modes.
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

// applyModes applies modes encoded as in RFC 4254, section 8: a number of four bytes
// follows each opcode below 160. It stops at opcode 0, and at opcodes from 160 on.
func applyModes(t *unix.Termios, modes []byte) {
	for len(modes) >= 5 && modes[0] != 0 && modes[0] < 160 {
		code, value := modes[0], binary.BigEndian.Uint32(modes[1:])
		modes = modes[5:]
		for _, c := range specialCharacters {
			if c.code != code {
				continue
			}
			t.Cc[c.at] = byte(value)
			if value == 255 { // disabled; Linux writes that as 0
				t.Cc[c.at] = 0
			}
		}
		if int(code) >= len(modeFlags) {
			continue
		}
		flags, bit := flagsOf(t, code), modeFlags[code]
		if *flags |= bit; value == 0 {
			*flags &^= bit
		}
	}
}

// specialCharacters are the opcodes that set a special character, with its index in Cc.
var specialCharacters = [...]struct{ code, at byte }{
	{1, unix.VINTR}, {2, unix.VQUIT}, {3, unix.VERASE}, {4, unix.VKILL}, {5, unix.VEOF}, {6, unix.VEOL}, {7, unix.VEOL2},
	{8, unix.VSTART}, {9, unix.VSTOP}, {10, unix.VSUSP}, {12, unix.VREPRINT}, {13, unix.VWERASE}, {14, unix.VLNEXT}, {18, unix.VDISCARD},
}

// modeFlags are the flags set by opcodes, indexed by opcode: input from 30 on, line discipline
// from 50 on, output from 70 on. Speeds and modes without meaning for a pseudo-terminal are
// missing.
var modeFlags = [...]uint32{
	30: unix.IGNPAR, unix.PARMRK, unix.INPCK, unix.ISTRIP, unix.INLCR, unix.IGNCR, unix.ICRNL, unix.IUCLC, unix.IXON, unix.IXANY, unix.IXOFF, unix.IMAXBEL, unix.IUTF8,
	50: unix.ISIG, unix.ICANON, unix.XCASE, unix.ECHO, unix.ECHOE, unix.ECHOK, unix.ECHONL, unix.NOFLSH, unix.TOSTOP, unix.IEXTEN, unix.ECHOCTL, unix.ECHOKE, unix.PENDIN,
	70: unix.OPOST, unix.OLCUC, unix.ONLCR, unix.OCRNL, unix.ONOCR, unix.ONLRET,
}

func flagsOf(t *unix.Termios, code byte) *uint32 {
	switch {
	case code < 50:
		return &t.Iflag
	case code < 70:
		return &t.Lflag
	}
	return &t.Oflag
}
