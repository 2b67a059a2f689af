package cert

import "time"

// LoadAnchors reads a trust folder once.
func LoadAnchors(dir string) (*Anchors, []Problem, error) {
	return NewFolder(dir, Options{}).Load(time.Now())
}

// PrintDN prints a name; SameDN reports whether such a text names the same.
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
