package browsertest

import (
	"path/filepath"
	"strings"
	"testing"

	"patchbay/am/testkit/program"
)

// addClass creates a class lab1 of a teacher and three students, and returns the link of each by name.
func (s *site) addClass() map[string]string {
	s.t.Helper()
	t, dir := s.t, s.t.TempDir()
	list, file, links := filepath.Join(dir, "class.txt"), filepath.Join(dir, "request.xml"), filepath.Join(dir, "links")
	program.Write(t, list, "student1\nstudent2\nstudent3\n")
	program.Write(t, file, request("vm:web"))
	s.patchbay("user", "--list", list, "--slice", "lab1", "--request", file, "--lead", "teacher", "--links", links)
	byName := map[string]string{}
	for line := range strings.Lines(program.ReadFile(t, links)) {
		name, url, _ := strings.Cut(line, " ")
		byName[name] = url
	}
	return byName
}

func TestWebClass(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	links := s.addClass()
	students := []string{"student1", "student2", "student3"}
	var tabs []*tab
	for i, name := range students {
		p := s.signIn(links[name])
		p.press("Start lab1")
		p.see("This is the experiment of your class.", "1 node")
		if i == 0 {
			p.fill("Your public SSH key", sshKey(t))
		}
		p.expect("422")
		p.press("Start")
		if i > 0 {
			p.see("You have no SSH key, so you could not log in.")
			p.press("Start without a key")
		}
		tabs = append(tabs, p)
	}
	for i, p := range tabs {
		p.see("1 node: 1 ready", "lab1 / "+students[i])
	}

	teacher := s.signIn(links["teacher"])
	teacher.press("Class")
	for _, name := range students {
		teacher.see(name)
	}
	teacher.see("3 ready")
	teacher.press("student2")
	teacher.see("1 node: 1 ready")
	teacher.press("Stop")
	teacher.see("1 node: 1 stopped")
	tabs[1].see("1 node: 1 stopped")
	teacher.press("Class")
	teacher.fill("All", "yes")
	teacher.fill("longer by", "1d")
	teacher.press("Extend")
	teacher.see("3 experiments extended: ")
	teacher.press("New link for student3")
	third := s.signIn(get[string](teacher, `document.getElementById("link").innerText`))
	third.see("student3", "Experiments")
	teacher.press("Class")
	teacher.fill("All", "yes")
	teacher.press("End…")
	teacher.press("Yes, end 3 experiments")
	for _, p := range tabs {
		p.see("It ended now: teacher")
	}
}
