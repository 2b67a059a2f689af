package agent

import (
	"errors"
	"os"
	"syscall"
)

// Apply applies cfg to the node in which it runs, as root. The node's PID 1 need not be an agent,
// but the main function of this executable must call Main if its name is Argv0. A repeated call is
// harmless.
func Apply(cfg Configuration) (Facts, error) {
	a := agent{kill: killByChild}
	facts, err := a.configure(&cfg)
	if err != nil {
		return Facts{}, err
	}
	return *facts, nil
}

// killByChild kills all processes of a user, as killUserOnce does, and waits for its child itself.
func killByChild(uid uint32) error {
	child, err := os.StartProcess("/proc/self/exe", []string{Argv0, argKillOwn}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Setsid: true},
	})
	if err != nil {
		return err
	}
	_, err = child.Wait()
	if errors.Is(err, syscall.ECHILD) {
		err = nil
	}
	return err
}
