package session

import (
	"path/filepath"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client/userfolder"
	"patchbay/credentials/trial"
)

func TestForeignCredentialsAreNotWritten(t *testing.T) {
	user := func(name string) trial.User {
		a, err := trial.Create(t.TempDir(), name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		u, err := a.User("alice", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	alice, other := user("example.org"), user("elsewhere.org")
	x := &Authority{User: alice.URN}
	answer := func(text []byte) xmlrpc.Value {
		return []xmlrpc.Value{xmlrpc.Struct{{Name: "geni_type", Value: "geni_sfa"}, {Name: "geni_value", Value: string(text)}}}
	}
	file := filepath.Join(t.TempDir(), "alice-usercred.xml")
	for rule, text := range map[string][]byte{"another user's": other.Credential, "no document": []byte("x\n[omni]")} {
		if err := x.writeCredential(answer(text), alice.URN, file); err == nil || userfolder.FileExists(file) {
			t.Errorf("the credential is %s: %v", rule, err)
		}
	}
	if err := x.writeCredential(answer(alice.Credential), alice.URN, file); err != nil {
		t.Error(err)
	}
}
