package cert

import "time"

// LoadAnchors reads a trust folder once.
func LoadAnchors(dir string) (*Anchors, []Problem, error) {
	return NewFolder(dir, Options{}).Load(time.Now())
}

// Forget drops what is remembered, so that a benchmark verifies anew.
func (a *Anchors) Forget() { a.verified = newMemory(4096) }

// PrintDN prints a name; SameDN tells whether such a text names the same.
func PrintDN(der []byte) string {
	d, err := readDN(der)
	if err != nil {
		return ""
	}
	return d.String()
}

func SameDN(text string, der []byte) bool {
	d, err := parseDN(text)
	return err == nil && d.key() == nameKey(der)
}

func ParseDN(text string) error {
	_, err := parseDN(text)
	return err
}

func ParseDenied(text []byte) ([]Denial, []Problem) { return parseDenied("denied", text) }
