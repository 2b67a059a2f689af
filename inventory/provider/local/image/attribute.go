package image

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// attribute is an extended attribute of a file.
type attribute struct{ name, value string }

// maxAttributes bounds the attributes of one file, in bytes.
const maxAttributes = 256 << 10

// isKept reports whether an image may have the attribute. It refuses attributes of
// overlayfs, which could make other files visible to a node. It accepts file capabilities
// only in revision 2. Revision 1 is obsolete, and revision 3 contains a user id.
func isKept(a attribute) bool {
	switch {
	case a.name == "security.capability":
		return len(a.value) == 20 && a.value[3] == 2
	case a.name == "system.posix_acl_access", a.name == "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(a.name, "user.") && !strings.HasPrefix(a.name, "user.overlay.")
}

// readAttributes returns the attributes that an image may have, sorted by name. It fails
// if they exceed maxAttributes.
func readAttributes(fd int) ([]attribute, error) {
	n, err := unix.Flistxattr(fd, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]byte, min(n, maxAttributes))
	if n, err = unix.Flistxattr(fd, names); err != nil {
		return nil, err
	}
	var attrs []attribute
	total := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10) // the kernel's own limit
		n, err := unix.Fgetxattr(fd, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		a := attribute{name, string(value[:n])}
		if !isKept(a) {
			continue
		}
		if total += len(a.name) + len(a.value); total > maxAttributes {
			return nil, unix.E2BIG
		}
		attrs = append(attrs, a)
	}
	slices.SortFunc(attrs, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
	return attrs, nil
}
