package e2e

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
	"patchbay/am/testkit/require"
)

// corpusRequest is a request of the corpus.
type corpusRequest struct {
	name, text string
	doc        corpusDocument
}

// corpusDocument has the parts of a request or manifest that the test uses, in any
// namespace.
type corpusDocument struct {
	XMLName xml.Name
	Nodes   []struct {
		ClientID  string `xml:"client_id,attr"`
		Exclusive string `xml:"exclusive,attr"`
		Manager   string `xml:"component_manager_id,attr"`
		Hardware  []struct {
			Name string `xml:"name,attr"`
		} `xml:"hardware_type"`
		Interfaces []struct {
			ClientID  string `xml:"client_id,attr"`
			MAC       string `xml:"mac_address,attr"`
			Addresses []struct {
				Address string `xml:"address,attr"`
			} `xml:"ip"`
		} `xml:"interface"`
		Services []struct {
			Installs []struct {
				URL  string `xml:"url,attr"`
				Path string `xml:"install_path,attr"`
			} `xml:"install"`
			Executes []struct {
				Command string `xml:"command,attr"`
			} `xml:"execute"`
		} `xml:"services"`
	} `xml:"node"`
	Links []struct {
		ClientID string `xml:"client_id,attr"`
		Managers []struct {
			Name string `xml:"name,attr"`
		} `xml:"component_manager"`
		Refs []struct {
			ClientID string `xml:"client_id,attr"`
		} `xml:"interface_ref"`
		Shared []struct {
			Name string `xml:"name,attr"`
		} `xml:"link_shared_vlan"`
	} `xml:"link"`
}

// The tag of a node, and how it names a machine.
var (
	elsewhere = regexp.MustCompile(`<(\w+:)?node\s[^>]*component_id=[^>]*>`)
	component = regexp.MustCompile(`\scomponent_(id|name)=("[^"]*"|'[^']*')`)
)

// readCorpus reads the requests of the corpus that have links, or install or
// execute something.
func readCorpus(t *testing.T) (list []*corpusRequest) {
	t.Helper()
	dir := require.Shared(t, "corpus", "rspecs", "request")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// Machines of other sites do not exist here.
		text := elsewhere.ReplaceAllStringFunc(program.ReadFile(t, filepath.Join(dir, f.Name())), func(node string) string {
			return component.ReplaceAllString(node, "")
		})
		r := &corpusRequest{name: f.Name(), text: text}
		if xml.Unmarshal([]byte(r.text), &r.doc) != nil || len(r.doc.Links) == 0 && r.stepCount() == 0 {
			continue
		}
		list = append(list, r)
	}
	return list
}

// stepCount returns the number of install and execute steps.
func (r *corpusRequest) stepCount() (n int) {
	for _, node := range r.doc.Nodes {
		for _, s := range node.Services {
			n += len(s.Installs) + len(s.Executes)
		}
	}
	return n
}

// managers returns all managers that the request names.
func (r *corpusRequest) managers() (list []string) {
	for _, n := range r.doc.Nodes {
		list = append(list, n.Manager)
	}
	for _, l := range r.doc.Links {
		for _, m := range l.Managers {
			list = append(list, m.Name)
		}
	}
	return slices.DeleteFunc(list, func(m string) bool { return !strings.HasPrefix(m, "urn:publicid:IDN+") })
}

// isExclusive reports whether a node needs an exclusive component, of which there is one.
func (r *corpusRequest) isExclusive() bool {
	for _, n := range r.doc.Nodes {
		if n.Exclusive == "true" || n.Exclusive == "1" {
			return true
		}
	}
	return false
}

// hardware returns the requested hardware types.
func (r *corpusRequest) hardware() (list []string) {
	for _, n := range r.doc.Nodes {
		for _, h := range n.Hardware {
			list = append(list, h.Name)
		}
	}
	return list
}

func (r *corpusRequest) sharedVLANs() (list []string) {
	for _, l := range r.doc.Links {
		for _, v := range l.Shared {
			list = append(list, v.Name)
		}
	}
	return list
}

// changesTo matches a command that changes to a folder and runs a script there.
var changesTo = regexp.MustCompile(`cd (/\S+?)/? *(?:&&|;) *(?:sudo )?\./(\S+)`)

// scripts returns the scripts that its commands run from installed archives, as names in
// an archive.
func (r *corpusRequest) scripts() (list []string) {
	for _, n := range r.doc.Nodes {
		for _, s := range n.Services {
			for _, i := range s.Installs {
				below := strings.TrimSuffix(i.Path, "/") + "/"
				for _, e := range s.Executes {
					command := changesTo.ReplaceAllString(e.Command, "$1/$2")
					for _, word := range strings.FieldsFunc(command, func(c rune) bool { return strings.ContainsRune(" \t\r\n;&|\"'`<>()", c) }) {
						name, ok := strings.CutPrefix(word, below)
						system := strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "usr/") // where it unpacks at the root
						if ok && !system && filepath.IsLocal(name) && name == filepath.Clean(name) && !strings.ContainsAny(name, "$*?") {
							list = append(list, name)
						}
					}
				}
			}
		}
	}
	return list
}
