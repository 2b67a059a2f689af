package match

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the kind of the values of a feature.
type Kind int

const (
	Text    Kind = iota
	Count        // a whole number
	Size         // a whole number of bytes
	Real         // a number with an optional unit, such as 1.5 or 20 ECU
	Version      // numbers separated by dots
)

// kinds has the known features. For other features the value determines the kind.
var kinds = map[string]Kind{
	"cpu.count": Count, "gpu.count": Count,
	"memory.size": Size, "disk.size": Size, "disk.0.size": Size, "disk.0.free_size": Size,
	"price": Real, "cpu.performance": Real,
}

// maxWhole is the limit up to which float64 holds all whole numbers.
const maxWhole = 1 << 53

var (
	isFeature = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`).MatchString
	numberOf  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)$`)
	isVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`).MatchString
)

// kindOf returns the kind of a feature's values; value decides if the feature is unknown.
func kindOf(feature, value string) Kind {
	if k, ok := kinds[feature]; ok {
		return k
	}
	if strings.HasSuffix(feature, ".version") || feature == "version" || strings.HasPrefix(feature, "software.") {
		return Version
	}
	m := numberOf.FindStringSubmatch(value)
	switch {
	case m == nil || strings.Contains(m[1], "."):
		return Text
	case m[2] == "":
		return Count
	case unitOf(m[2]) > 0:
		return Size
	}
	return Text
}

// unitOf returns the number of bytes in a unit of size, or 0 for an unknown unit.
func unitOf(unit string) float64 {
	unit = strings.ToUpper(unit)
	if unit == "" || unit == "B" {
		return 1
	}
	power := strings.Index("KMGTPE", unit[:1]) + 1
	switch unit[1:] {
	case "", "B", "I", "IB":
		if power > 0 {
			return math.Pow(1024, float64(power))
		}
	}
	return 0
}

// value has only the fields of its kind set.
type value struct {
	kind   Kind
	number float64 // of a Count, a Size or a Real
	text   string  // of a Text or a Version; the unit of a Real
}

// SizeOf returns the bytes of a size such as 4G.
func SizeOf(text string) (int64, error) {
	v, err := parseValue(Size, text)
	return int64(v.number), err
}

func parseValue(k Kind, s string) (value, error) {
	s = strings.TrimSpace(s)
	switch k {
	case Text:
		return value{kind: k, text: s}, nil
	case Version:
		if !isVersion(s) {
			return value{}, fmt.Errorf("%.80q is not a version: numbers separated by dots", s)
		}
		return value{kind: k, text: s}, nil
	}
	m := numberOf.FindStringSubmatch(s)
	if m == nil {
		return value{}, fmt.Errorf("%.80q is not a number", s)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return value{}, fmt.Errorf("%.80q is not a number", s)
	}
	v := value{kind: k, number: n}
	switch k {
	case Real:
		v.text = strings.ToUpper(m[2])
	case Size:
		unit := unitOf(m[2])
		if unit == 0 {
			return value{}, fmt.Errorf("%.80q has no unit of size; use B, K, M, G or T", s)
		}
		v.number = math.Round(n * unit)
	case Count:
		if m[2] != "" {
			return value{}, fmt.Errorf("%.80q is not a number", s)
		}
	}
	if v.number > maxWhole {
		return value{}, fmt.Errorf("%.80q is too large", s)
	}
	return v, nil
}

// String formats v so that parseValue reads the same value. A Size gets the largest unit
// without a fraction.
func (v value) String() string {
	switch v.kind {
	case Text, Version:
		return v.text
	case Size:
		n, unit := v.number, ""
		for _, u := range []string{"K", "M", "G", "T"} {
			if n == 0 || math.Mod(n, 1024) != 0 {
				break
			}
			n, unit = n/1024, u
		}
		return strconv.FormatFloat(n, 'f', -1, 64) + unit
	}
	return strings.TrimSpace(strconv.FormatFloat(v.number, 'f', -1, 64) + " " + v.text)
}

// architectures are other spellings of processors, as users of other clouds and Debian write them.
var architectures = map[string]string{
	"amd64": "x86_64", "x86-64": "x86_64", "x64": "x86_64",
	"i386": "i686", "i486": "i686", "i586": "i686", "x86": "i686",
	"arm64": "aarch64",
}

// sameText reports whether two texts are equal without regard to case, or are spellings of one architecture.
func sameText(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return cmp.Or(architectures[a], a) == cmp.Or(architectures[b], b)
}

// CompareVersions compares versions number by number; a missing number is 0.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}
