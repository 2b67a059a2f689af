package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"patchbay/am/client"
)

// stage is where a demonstration is shown: numbered steps with the time each
// begins, and what is said under them.
type stage struct {
	w     io.Writer
	start time.Time
	steps int
}

func newStage(w io.Writer) *stage { return &stage{w: w, start: time.Now()} }

// step begins a step that commands do by hand.
func (s *stage) step(what string, commands ...string) {
	s.steps++
	fmt.Fprintf(s.w, "\n%2d. %s  [%.1fs]\n", s.steps, what, time.Since(s.start).Seconds())
	for _, c := range commands {
		fmt.Fprintf(s.w, "    $ %s\n", c)
	}
}

// say writes lines under the step.
func (s *stage) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...) + "\n") {
		fmt.Fprintf(s.w, "    %s", line)
	}
}

// tick is say with the time.
func (s *stage) tick(format string, args ...any) {
	s.say("[%.1fs] %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// document shows a part of a document. Lines that are too long to read are
// broken between elements, and what is still too long is cut.
func (s *stage) document(what, text string) {
	const most, width, cut = 16, 100, 180
	fmt.Fprintf(s.w, "    --- %s\n", what)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if len(line) > width {
			line = strings.ReplaceAll(line, "><", ">\n      <")
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(s.w, "    | … %d more lines\n", len(lines)-most)
			break
		}
		if len(line) > cut {
			line = strings.ToValidUTF8(line[:cut-3], "") + "…"
		}
		fmt.Fprintf(s.w, "    | %s\n", line)
	}
}

// slivers shows what a call says of each sliver.
func (s *stage) slivers(list []client.Sliver) {
	t := tabwriter.NewWriter(s.w, 0, 0, 2, ' ', 0)
	for _, x := range list {
		fmt.Fprintf(t, "    %s\t%s\t%s\t%s\tuntil %s\n", x.ClientID, x.URN, x.Allocation, x.Operational, client.Time(x.Expires))
	}
	t.Flush()
}

// told shows what was installed in the nodes, and by what means their links are
// made.
func (s *stage) told(list []client.Sliver) {
	t := tabwriter.NewWriter(s.w, 0, 0, 2, ' ', 0)
	for _, x := range list {
		for _, v := range x.Services {
			fmt.Fprintf(t, "    %s\tstep %d, %s\t%s\n", x.ClientID, v.Step, v.Kind, v.State)
		}
		for _, i := range x.Interfaces {
			fmt.Fprintf(t, "    %s\t%s at %s\tby %s\n", x.ClientID, i.ClientID, i.Link, i.Emulator)
		}
	}
	t.Flush()
}

// states sums up the operational states of slivers.
func states(list []client.Sliver) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = x.Operational
	}
	return strings.Join(words, ", ")
}

// excerpt is the first element of that name in a document, as it is written.
func excerpt(doc, name string) (string, error) {
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		from := d.InputOffset()
		t, err := d.Token()
		if err != nil {
			return "", fmt.Errorf("no <%s> in the document: %w", name, err)
		}
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == name {
			if err := d.Skip(); err != nil {
				return "", err
			}
			return indented(doc, int(from), int(d.InputOffset())), nil
		}
	}
}

// indented is doc[from:to] without the indentation that its first line has.
func indented(doc string, from, to int) string {
	line := strings.LastIndexByte(doc[:from], '\n') + 1
	indent := doc[line:from]
	if strings.TrimSpace(indent) != "" {
		return doc[from:to]
	}
	return strings.ReplaceAll(doc[from:to], "\n"+indent, "\n")
}

// countNodes counts the nodes of an advertisement, and those available now.
func countNodes(ad string) (all, free int, err error) {
	var doc struct {
		Nodes []struct {
			Available struct {
				Now string `xml:"now,attr"`
			} `xml:"available"`
		} `xml:"node"`
	}
	if err := xml.Unmarshal([]byte(ad), &doc); err != nil {
		return 0, 0, fmt.Errorf("the advertisement cannot be read: %w", err)
	}
	for _, n := range doc.Nodes {
		if n.Available.Now == "true" {
			free++
		}
	}
	return len(doc.Nodes), free, nil
}

// login is one door of a node.
type login struct{ node, user, host, port string }

// logins are the doors in a manifest, one for each node that has some.
func logins(manifest string) ([]login, error) {
	var doc struct {
		Nodes []struct {
			ClientID string `xml:"client_id,attr"`
			Logins   []struct {
				Authentication string `xml:"authentication,attr"`
				Host           string `xml:"hostname,attr"`
				Port           string `xml:"port,attr"`
				User           string `xml:"username,attr"`
			} `xml:"services>login"`
		} `xml:"node"`
	}
	if err := xml.Unmarshal([]byte(manifest), &doc); err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	var out []login
	for _, n := range doc.Nodes {
		if len(n.Logins) == 0 {
			continue
		}
		l := n.Logins[0]
		if l.Authentication != "ssh-keys" || l.Host == "" || l.Port == "" || l.User == "" {
			return nil, errors.New("a login in the manifest lacks host, port, user, or ssh-keys")
		}
		out = append(out, login{n.ClientID, l.User, l.Host, l.Port})
	}
	return out, nil
}
