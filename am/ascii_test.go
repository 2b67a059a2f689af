package am

import (
	"encoding/json"
	"testing"
)

func TestASCII(t *testing.T) {
	for _, want := range []string{"plain", "\x7f", "é", "\u202e", "😀 and 漢"} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		plain := ASCII(text)
		for _, c := range plain {
			if c >= 0x7f {
				t.Errorf("%q: %s", want, plain)
			}
		}
		var got string
		if err := json.Unmarshal(plain, &got); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", want, got, err)
		}
	}
}
