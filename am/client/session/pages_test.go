package session

import "testing"

// TestOnlyPagesAreOpened: the URL of a link comes from a server, and a browser opens it.
func TestOnlyPagesAreOpened(t *testing.T) {
	for text, want := range map[string]bool{
		"https://am.example.org:8445/ui/sign-in/x": true, "http://127.0.0.1:8445/ui/sign-in/x": true, "http://localhost:1/": true,
		"http://am.example.org/ui/sign-in/x": false, "file:///etc/passwd": false, "javascript:alert(1)": false, "--help": false, "": false, "https:///x": false,
	} {
		if got := isPagesURL(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
