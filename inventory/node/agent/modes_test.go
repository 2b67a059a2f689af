package agent

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestModes(t *testing.T) {
	start := unix.Termios{Iflag: unix.ICRNL | unix.IXON, Oflag: unix.OPOST, Lflag: unix.ECHO}
	start.Cc[unix.VERASE] = 0x7f
	for _, c := range []struct {
		name   string
		modes  []byte
		change func(*unix.Termios)
	}{
		{"Nothing", nil, func(*unix.Termios) {}},
		{"Character", []byte{3, 0, 0, 0, 8}, func(t *unix.Termios) { t.Cc[unix.VERASE] = 8 }},
		{"CharacterOff", []byte{3, 0, 0, 0, 255}, func(t *unix.Termios) { t.Cc[unix.VERASE] = 0 }},
		{"FlagsOnAndOff", []byte{36, 0, 0, 0, 0, 40, 0, 0, 0, 1, 53, 0, 0, 0, 0, 72, 0, 0, 0, 9}, func(t *unix.Termios) {
			t.Iflag, t.Lflag, t.Oflag = unix.IXON|unix.IXOFF, 0, unix.OPOST|unix.ONLCR
		}},
		{"EndsAtZero", []byte{0, 36, 0, 0, 0, 0}, func(*unix.Termios) {}},
		{"EndsAtUnknownForm", []byte{160, 36, 0, 0, 0, 0, 36, 0, 0, 0, 0}, func(*unix.Termios) {}},
		{"SkipsUnknown", []byte{129, 0, 0, 0x96, 0, 38, 0, 0, 0, 0}, func(t *unix.Termios) { t.Iflag = unix.ICRNL }},
		{"CutOff", []byte{36, 0, 0, 0}, func(*unix.Termios) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, want := start, start
			applyModes(&got, c.modes)
			c.change(&want)
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func FuzzModes(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 8, 36, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, modes []byte) {
		var x unix.Termios
		applyModes(&x, modes)
		if x.Cflag != 0 || x.Ispeed != 0 || x.Ospeed != 0 {
			t.Error("a mode was set that no pseudo-terminal needs")
		}
	})
}

func TestTermName(t *testing.T) {
	for name, want := range map[string]string{
		"xterm-256color": "xterm-256color", "screen.xterm+x_1": "screen.xterm+x_1",
		"": "dumb", "../../etc/passwd": "dumb", "a b": "dumb", "$(id)": "dumb", ".x": "dumb", "ü": "dumb",
		strings.Repeat("x", 65): "dumb",
	} {
		if got := termName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
