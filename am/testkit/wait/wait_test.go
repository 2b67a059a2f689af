package wait

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(_ string, args ...any) {
	f.text = args[len(args)-1].(string)
	runtime.Goexit()
}

// fatal returns the failure of wait.
func fatal(t *testing.T, wait func(t testing.TB)) string {
	t.Setenv("PATCHBAY_WAIT", "0.0001")
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(f)
	}()
	<-done
	return f.text
}

func TestWaitEndsWithTheReason(t *testing.T) {
	n := 0
	Until(t, "three tries", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("tried %d times", n)
	}
	for want, wait := range map[string]func(testing.TB){
		"the sun":   func(t testing.TB) { Until(t, "the sun", func() bool { return false }) },
		"too dark":  func(t testing.TB) { Clear(t, func() string { return "too dark" }) },
		"no answer": func(t testing.TB) { Success(t, "it", func() error { return errors.New("no answer") }) },
	} {
		if got := fatal(t, wait); !strings.Contains(got, want) {
			t.Errorf("failed with %q, want %q", got, want)
		}
	}
}
