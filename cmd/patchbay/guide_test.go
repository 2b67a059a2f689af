package main

import (
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// TestGuideShowsEachTopic proves that the command lists and prints each guide.
func TestGuideShowsEachTopic(t *testing.T) {
	_, list := runCommand(t, "guide")
	for _, name := range guideTopics() {
		if name == contractTopic {
			continue
		}
		code, out := runCommand(t, "guide", name)
		title, _, _ := strings.Cut(out, "\n")
		if code != 0 || !strings.HasPrefix(title, "# ") || strings.Contains(out, "```") {
			t.Errorf("patchbay guide %s: %d\n%s", name, code, out)
		}
		program.WantTexts(t, "\n"+list, "\n"+name, title[2:])
	}
	if code, out := runCommand(t, "guide", "contract"); code != 0 || !strings.Contains(out, "ral_action=get") {
		t.Error(code, out)
	}
	if code, out := runCommand(t, "guide", "experimentr"); code != 1 || !strings.Contains(out, "did you mean experimenter?") {
		t.Error(code, out)
	}
}

// TestPictureOfTheExample compares the picture in README.md with the output of draw.
func TestPictureOfTheExample(t *testing.T) {
	code, svg := runCommand(t, "draw", "--svg", "-", "../../am/client/experiment/lan.xml")
	if code != 0 || svg != program.ReadFile(t, "guide/lan.svg") {
		t.Error("make it again: bin/patchbay draw --svg cmd/patchbay/guide/lan.svg am/client/experiment/lan.xml")
	}
}
