package site

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
)

// TestCloseIsInReverseOrder checks the order of onClose, and that one error stops no other part.
func TestCloseIsInReverseOrder(t *testing.T) {
	var s Site
	var order []int
	broken := errors.New("broken")
	for i := range 3 {
		s.onClose(func() error {
			order = append(order, i)
			return map[int]error{1: broken}[i]
		})
	}
	if err := s.Close(); !errors.Is(err, broken) || !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("%v, %v", order, err)
	}
	if err := s.Close(); err != nil || len(order) != 3 {
		t.Errorf("again: %v, %v", order, err)
	}
}

// TestFailedOpenClosesItsParts checks that a site whose providers are in use leaves its port and
// its store free.
func TestFailedOpenClosesItsParts(t *testing.T) {
	dir := made(t)
	c, err := ReadConfig(filepath.Join(dir, ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listen = l.Addr().String()
	l.Close()
	lock, err := lockProviders(c.Providers, c.Log.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, c.Log.New(io.Discard)); err == nil {
		t.Fatal("two servers use the same providers")
	}
	lock.Close()
	s, err := Open(t.Context(), c, c.Log.New(io.Discard))
	if err != nil {
		t.Fatalf("after a failure: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
