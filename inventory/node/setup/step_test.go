package setup

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	install := func(url, path, kind string) string {
		return fmt.Sprintf(`{"kind":"install","url":%q,"install_path":%q,"file_type":%q}`, url, path, kind)
	}
	execute := func(shell, command string) string {
		return fmt.Sprintf(`{"kind":"execute","shell":%q,"command":%q}`, shell, command)
	}
	executeWith := func(members string) string {
		for n := 0; strings.Contains(members, "%"); n++ {
			members = strings.Replace(members, "%", fmt.Sprint(n), 1)
		}
		return `{"kind":"execute",` + members + `}`
	}
	archive := func(object string) string {
		return `{"kind":"install","url":"data:,","install_path":"/a/b/","archive":` + object + `}`
	}
	disk := func(size int, system, at string) string {
		return fmt.Sprintf(`{"kind":"disk","size":%d,"fstype":%q,"install_path":%q}`, size, system, at)
	}
	const unsupported = "unsupported"
	for _, tt := range []struct{ rule, text, err string }{
		{"http", install("http://example.org/a.tgz", "/local", ""), ""},
		{"https with a name and a password", install("https://u:p@example.org/a.tgz", "~", "tar.gz"), ""},
		{"data", install("data:,x", "~/a", ""), ""},
		{"another scheme", install("ftp://example.org/a", "/local", ""), "is not an http:, https: or data: URL"},
		{"a file of the node", install("file:///etc/shadow", "/local", ""), "is not an http:, https: or data: URL"},
		{"a line break in the url", install("http://example.org/a\r\nX: y", "/local", ""), "cannot be read"},
		{"a url that is too long", install("data:,"+strings.Repeat("x", MaxURL), "/local", ""), "bytes, at most"},
		{"a path that is not absolute", install("http://example.org/a", "local", ""), "is not absolute"},
		{"another's home", install("http://example.org/a", "~bob/a", ""), "is not absolute"},
		{"no path", install("http://example.org/a", "", ""), "is not absolute"},
		{"a long type", install("http://example.org/a", "/", strings.Repeat("x", maxShort+1)), "file_type"},
		{"install with a command", `{"kind":"install","url":"data:,","install_path":"/","command":"x"}`, "has no command"},
		{"sh", execute("sh", "true"), ""},
		{"bash", execute("bash", "true"), ""},
		{"no command", execute("sh", ""), "is empty"},
		{"a zero byte", execute("sh", "a\x00b"), "cannot be"},
		{"the longest command", execute("sh", strings.Repeat("x", MaxCommand)), ""},
		{"a longer command", execute("sh", strings.Repeat("x", MaxCommand+1)), "install a script"},
		{"another kind", `{"kind":"remove"}`, unsupported},
		{"a disk", disk(10240, "ext4", "/data"), ""},
		{"a disk at a deep path", disk(16, "ext4", "/var/lib/mysql/"), ""},
		{"a disk that is too small", disk(15, "ext4", "/data"), "at least 16"},
		{"a disk with xfs", disk(100, "xfs", "/data"), unsupported},
		{"a disk for swapping", disk(100, "swap", ""), unsupported},
		{"a disk that copies an image", `{"kind":"disk","size":100,"fstype":"ext4","install_path":"/data","url":"https://example.org/i"}`, unsupported},
		{"a disk with an operation", `{"kind":"disk","size":100,"fstype":"ext4","install_path":"/data","operation":"stop"}`, "has no operation"},
		{"a disk with a command", `{"kind":"disk","size":100,"fstype":"ext4","install_path":"/data","command":"x"}`, "has no command"},
		{"a disk at a relative path", disk(100, "ext4", "data"), "not an absolute path"},
		{"a disk at a home", disk(100, "ext4", "~/data"), "not an absolute path"},
		{"a disk at a path with dots", disk(100, "ext4", "/data/../etc"), "not an absolute path"},
		{"a disk at a long path", disk(100, "ext4", "/"+strings.Repeat("x", 255)), "not an absolute path"},
		{"a disk as the root", disk(100, "ext4", "/"), "would hide files"},
		{"a disk at /usr", disk(100, "ext4", "/usr/"), "would hide files"},
		{"a disk below /run", disk(100, "ext4", "/run/x"), "would hide files"},
		{"a disk at /proc", disk(100, "ext4", "/proc"), "would hide files"},
		{"user data", `{"kind":"userdata","url":"data:,x"}`, ""},
		{"user data from a server", `{"kind":"userdata","url":"http://example.org/"}`, "not a data: URL"},
		{"user data with a shell", `{"kind":"userdata","url":"data:,x","shell":"sh"}`, "has no shell"},
		{"a name and a stage", `{"kind":"execute","step":"the database","stage":3,"shell":"sh","command":"x"}`, ""},
		{"a long name", `{"kind":"execute","step":"` + strings.Repeat("x", maxStepName+1) + `","shell":"sh","command":"x"}`, "name of the step"},
		{"a negative stage", `{"kind":"execute","stage":-1,"shell":"sh","command":"x"}`, "is negative"},
		{"an operation", `{"kind":"execute","operation":"stop","shell":"sh","command":"x"}`, ""},
		{"another operation", `{"kind":"execute","operation":"scale","shell":"sh","command":"x"}`, unsupported},
		{"an operation of an install", `{"kind":"install","operation":"stop","url":"data:,","install_path":"/"}`, "has no operation"},
		{"a size", `{"kind":"execute","size":1,"shell":"sh","command":"x"}`, "has no size"},
		{"a user and the background", `{"kind":"execute","as_user":true,"background":false,"shell":"sh","command":"x"}`, ""},
		{"a variable", executeWith(`"shell":"sh","command":"x","environment":{"a_B1":"\n","_":""}`), ""},
		{"a variable with a bad name", executeWith(`"shell":"sh","command":"x","environment":{"a-b":""}`), "name of a variable"},
		{"a variable without a name", executeWith(`"shell":"sh","command":"x","environment":{"":""}`), "name of a variable"},
		{"a variable with two values", executeWith(`"shell":"sh","command":"x","environment":{"a=b":""}`), "name of a variable"},
		{"a variable with a zero byte", executeWith(`"shell":"sh","command":"x","environment":{"a":"\u0000"}`), "zero byte"},
		{"a variable that is always set", executeWith(`"shell":"sh","command":"x","environment":{"HOME":"/"}`), "cannot be changed"},
		{"a long variable", executeWith(`"shell":"sh","command":"x","environment":{"a":"` + strings.Repeat("x", maxVariable-2) + `"}`), ""},
		{"a longer variable", executeWith(`"shell":"sh","command":"x","environment":{"a":"` + strings.Repeat("x", maxVariable-1) + `"}`), "the variable a has"},
		{"too many variables", executeWith(`"shell":"sh","command":"x","environment":{` + strings.Repeat(`"a%":"`+strings.Repeat("x", 1<<17-8)+`",`, 5) + `"b":""}`), "the variables have"},
		{"a script", executeWith(`"shell":"sh","script":"a/b","files":[{"url":"data:,","path":"a/b"},{"url":"http://example.org/","path":"c"}]`), ""},
		{"a script with a line that names its interpreter", executeWith(`"script":"b","files":[{"url":"data:,","path":"b"}]`), ""},
		{"a script with another shell", executeWith(`"shell":"perl","script":"b","files":[{"url":"data:,","path":"b"}]`), "neither sh nor bash"},
		{"a script and a command", executeWith(`"shell":"sh","command":"x","script":"b","files":[{"url":"data:,","path":"b"}]`), "either a command or a script"},
		{"a command without a shell", executeWith(`"command":"x"`), "neither sh nor bash"},
		{"files without a script", executeWith(`"files":[{"url":"data:,","path":"b"}]`), "not one of the files"},
		{"a script that is no file", executeWith(`"script":"a","files":[{"url":"data:,","path":"b"}]`), "not one of the files"},
		{"a file outside", executeWith(`"script":"../b","files":[{"url":"data:,","path":"../b"}]`), "use a relative path without"},
		{"an absolute file", executeWith(`"script":"/b","files":[{"url":"data:,","path":"/b"}]`), "use a relative path without"},
		{"a file with a detour", executeWith(`"script":"./b","files":[{"url":"data:,","path":"./b"}]`), "use a relative path without"},
		{"a file in a file", executeWith(`"script":"a","files":[{"url":"data:,","path":"a/b/c"},{"url":"data:,","path":"a"}]`), "also the folder of"},
		{"a file twice", executeWith(`"script":"a","files":[{"url":"data:,","path":"a"},{"url":"data:,","path":"a"}]`), "twice"},
		{"a file of the node", executeWith(`"script":"a","files":[{"url":"file:///etc/shadow","path":"a"}]`), "is not an http:, https: or data: URL"},
		{"an archive", archive(`{}`), ""},
		{"accounts", archive(`{"users":[{"name":"my-db_1.x$","id":0}],"groups":[{"name":"db","id":4294967294}]}`), ""},
		{"a user without a number", archive(`{"users":[{"name":"db","id":4294967295}]}`), "cannot be the number"},
		{"a negative number", archive(`{"users":[{"name":"db","id":-1}]}`), "not a valid JSON object"},
		{"a number twice", archive(`{"groups":[{"name":"a","id":1},{"name":"b","id":1}]}`), "have the number 1"},
		{"a name with a colon", archive(`{"users":[{"name":"db:x","id":1}]}`), "cannot be the name"},
		{"a name with a line break", archive(`{"users":[{"name":"db\n","id":1}]}`), "cannot be the name"},
		{"a name that is an option", archive(`{"users":[{"name":"-db","id":1}]}`), "cannot be the name"},
		{"a name that is a number", archive(`{"groups":[{"name":"12","id":1}]}`), "cannot be the name"},
		{"no name", archive(`{"groups":[{"name":"","id":1}]}`), "cannot be the name"},
		{"folders", archive(`{"folders":[{"path":"/a","user":1,"group":1,"mode":"0750"},{"path":"/a/b","user":1,"group":1,"mode":"754"}]}`), ""},
		{"a folder elsewhere", archive(`{"folders":[{"path":"/a/c","user":1,"group":1,"mode":"0750"}]}`), "neither the install_path nor above it"},
		{"a folder with a similar name", archive(`{"folders":[{"path":"/a/bb","user":1,"group":1,"mode":"0750"}]}`), "neither the install_path nor above it"},
		{"a folder below", archive(`{"folders":[{"path":"/a/b/c","user":1,"group":1,"mode":"0750"}]}`), "neither the install_path nor above it"},
		{"the root", archive(`{"folders":[{"path":"/","user":1,"group":1,"mode":"0750"}]}`), "neither the install_path nor above it"},
		{"a folder with ..", archive(`{"folders":[{"path":"/a/../a/b","user":1,"group":1,"mode":"0750"}]}`), "neither the install_path nor above it"},
		{"a folder twice", archive(`{"folders":[{"path":"/a","user":1,"group":1,"mode":"0750"},{"path":"/a","user":1,"group":1,"mode":"0750"}]}`), "twice"},
		{"a folder of nobody", archive(`{"folders":[{"path":"/a","user":1,"group":4294967295,"mode":"0750"}]}`), "cannot be the owner"},
		{"a mode that sets ids", archive(`{"folders":[{"path":"/a","user":1,"group":1,"mode":"4755"}]}`), "three octal digits"},
		{"a mode that is not octal", archive(`{"folders":[{"path":"/a","user":1,"group":1,"mode":"9z5"}]}`), "three octal digits"},
		{"no object", `[]`, "not a valid JSON object"},
		{"two objects", `{"kind":"execute","shell":"sh","command":"x"}{}`, "text after the JSON object"},
		{"an unknown key", `{"kind":"execute","shell":"sh","command":"x","as":"root"}`, unsupported},
		{"an unknown key of another type", `{"kind":5,"as":"root"}`, "not a valid JSON object"},
		{"no UTF-8", "{\"kind\":\"execute\",\"shell\":\"sh\",\"command\":\"\xff\"}", "not UTF-8"},
	} {
		s, err := ParseStep(tt.text)
		if tt.rule == "a zero byte" { // Go quotes it in a way that is not JSON
			b, _ := json.Marshal(Step{Kind: Execute, Shell: "sh", Command: "a\x00b"})
			s, err = ParseStep(string(b))
			tt.err = "zero byte"
		}
		if (tt.err == unsupported) != IsUnsupported(err) {
			t.Errorf("%s: %v", tt.rule, err)
		}
		if tt.err == unsupported {
			continue
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %+v, %v; want %q", tt.rule, s, err, tt.err)
		}
	}
}

// An accepted step is parsed the same again, and is within the bounds.
func FuzzParseStep(f *testing.F) {
	f.Add(`{"kind":"install","url":"https://example.org/a.tgz","install_path":"~/x","file_type":"tar.gz"}`)
	f.Add(`{"kind":"execute","shell":"bash","command":"echo \"$HOME\"\n"}`)
	f.Add(`{"kind":"execute","script":"a/b","files":[{"url":"data:,","path":"a/b"}],"environment":{"a":"b"},"background":false}`)
	f.Add(`{"kind":"install","url":"data:,","install_path":"/a/b","archive":{"users":[{"name":"db","id":1}],"folders":[{"path":"/a","user":1,"group":1,"mode":"0755"}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStep(text)
		if err != nil {
			return
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseStep(string(b)); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q becomes %+v, %v", text, again, err)
		}
		if len(s.Command) > MaxCommand || len(s.URL) > MaxURL || strings.ContainsRune(s.Command+s.URL+s.InstallPath, 0) {
			t.Errorf("%q is accepted", text)
		}
	})
}
