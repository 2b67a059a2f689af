package fdsocket

import "testing"

// The other end may close as soon as it has the message. The send still succeeds.
func TestSendSucceedsIfReceiverCloses(t *testing.T) {
	for range 3000 {
		ours, file, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := FromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan error)
		go func() {
			_, err := theirs.Receive(new(string), 100, 0)
			theirs.Close()
			received <- err
		}()
		if err := ours.Send("hello"); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil {
			t.Fatal(err)
		}
		ours.Close()
	}
}
