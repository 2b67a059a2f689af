package cert

// Forget drops what is remembered, so that a benchmark verifies anew.
func (a *Anchors) Forget() { a.verified = newMemory(4096) }

// PrintDN and ReadDN are a round trip of a name through its text.
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
