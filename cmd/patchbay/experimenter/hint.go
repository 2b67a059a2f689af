package experimenter

import (
	"fmt"
	"strings"

	"patchbay/am/display"
)

// optionWarnings returns a warning for each --option that the method does not have. A name
// without geni_ that resembles no option gets no warning: it may be an option of other
// software.
func (r *callRequest) optionWarnings() (list []string) {
	sh, ok := shapes[r.api][r.method]
	known := append(strings.Fields(sh.options), "geni_speaking_for")
	for _, o := range r.options {
		name, _, _ := strings.Cut(o, "=")
		near := display.Suggest(name, known)
		if !ok || near == name || near == "" && !strings.HasPrefix(name, "geni_") {
			continue
		}
		text := fmt.Sprintf("warning  %s has no option %s", r.method, name)
		if near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		list = append(list, text)
	}
	return list
}
