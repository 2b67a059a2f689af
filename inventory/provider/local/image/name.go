package image

import (
	"fmt"
	"strings"
)

// hashDigits is the number of hexadecimal digits of the hash in a key. They have 120 bits.
const hashDigits = 30

func checkName(name string) error {
	ok := name != "" && len(name) <= 63 && name[0] != '.' && name[0] != '-'
	for i := 0; i < len(name) && ok; i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%.80q cannot be the name of an image: use up to 63 letters (a-z), digits, dots and hyphens, beginning with a letter or digit", name)
	}
	return nil
}

// isKeyOf reports whether key has the form NAME@HASH, which is safe as a file name.
func isKeyOf(key, name string) bool {
	hash, ok := strings.CutPrefix(key, name+"@")
	return ok && checkName(name) == nil && len(hash) == hashDigits && strings.Trim(hash, "0123456789abcdef") == ""
}
