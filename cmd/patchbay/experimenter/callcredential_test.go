package experimenter

import (
	"strings"
	"testing"
)

func TestSpeakingForMustBeAUser(t *testing.T) {
	for u, want := range map[string]string{
		"alice": "--speaking-for", "urn:publicid:IDN+a.example.org+slice+s1": "not a user", "urn:publicid:IDN+a.example.org+user+alice": "",
	} {
		o := callOptions{SpeakingFor: u}
		err := o.Validate([]string{"Status"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", u, err, want)
		}
	}
}
