package main

import (
	"crypto/tls"
	"path/filepath"
	"sync"
	"testing"
)

// TestConcurrentUserCommandsAgree proves that one command waits for the other, both
// succeed, and each user's certificate matches the key.
func TestConcurrentUserCommandsAgree(t *testing.T) {
	dir := newSite(t)
	names := []string{"alice", "bob"}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			args := append([]string{"user", "--slice", "lab1", "--config", dir}, names...)
			if code, out := runCommand(t, args...); code != 0 {
				t.Error(out)
			}
		})
	}
	both.Wait()
	for _, name := range names {
		user := filepath.Join(dir, "users", name)
		if _, err := tls.LoadX509KeyPair(filepath.Join(user, name+"-cert.pem"), filepath.Join(user, name+"-key.pem")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
