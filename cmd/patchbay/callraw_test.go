package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"patchbay/am/testkit/program"
	"patchbay/cmd/patchbay/command"
)

func TestRawAnswersCannotControlATerminal(t *testing.T) {
	const hostile = "before\u009b2J\u009d0;title\u009cafter" // CSI and OSC as C1 controls, which XML permits
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"a good answer", `<methodResponse><params><param><value><struct>` +
			`<member><name>code</name><value><struct><member><name>geni_code</name><value><int>0</int></value></member></struct></value></member>` +
			`<member><name>value</name><value>` + hostile + `</value></member>` +
			`<member><name>output</name><value>` + hostile + `</value></member></struct></value></param></params></methodResponse>`, http.StatusOK},
		{"no XML", "before\x1b]0;title\x07\x1b[2J\x9b2J\rafter", http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			call := func(out, err io.Writer) {
				run(t.Context(), []string{"call", "--raw", "--url", s.URL, "GetVersion"}, command.Console{Out: out, Err: err})
			}
			master, terminal := program.NewTerminal(t)
			shown := make(chan string)
			go func() {
				text, _ := io.ReadAll(master) // ends with an error when the terminal is closed
				shown <- string(text)
			}()
			call(terminal, terminal)
			terminal.Close()
			text := strings.ReplaceAll(<-shown, "\r\n", "\n") // added by the terminal's driver
			for _, r := range text {
				if unicode.IsControl(r) && r != '\n' {
					t.Errorf("the terminal gets %U in %q", r, text)
					break
				}
			}
			if !strings.Contains(text, "before") || !strings.Contains(text, "after") {
				t.Errorf("the terminal shows only %q", text)
			}
			file, err := os.Create(filepath.Join(t.TempDir(), "answer"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			call(file, io.Discard)
			if got, err := os.ReadFile(file.Name()); err != nil || string(got) != tt.body+"\n" {
				t.Errorf("a file gets %q, %v; the server sent %q", got, err, tt.body)
			}
		})
	}
}
