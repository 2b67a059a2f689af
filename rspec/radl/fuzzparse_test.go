package radl_test

import (
	"testing"

	"patchbay/rspec/radl"
)

// FuzzParse requires that the text and the JSON form of each accepted document parse to the same
// document, also without its secrets.
func FuzzParse(f *testing.F) {
	for _, x := range []struct{ text, value string }{
		{"system s (cpu.count >= 1 and memory.size => 1.5 GB and soft 10 (price < 2) and disk.0.applications contains (name=\"x\", version >= '1.2'))\ndeploy s 2 north", ""},
		{"network n (outports = '80,9000:9100/udp')\nnetwork m\nsystem s (net_interface.0.connection = 'n' and disk.0.image.url = ['a', 'b'])\nconfigure s (\n@begin\n- tasks: []\n@end\n)\n", ""},
		{"description d (name = 'it\\'s @input.v@')\nansible a (host = 'h' and credentials.username = 'u' and credentials.password = 'p')\ncontextualize 60 (option ansible_version = '2.9' system s configure c step 2 with cloud-init)", `C:\`},
		{`[{"class":"system","id":"s","cpu.count_min":1,"price_below":2,"disk.0.applications":[{"name":"x"}],"softs":[{"weight":1,"items":[{"cpu.arch":"i686"}]}]},{"class":"deploy","system":"s","vm_number":1}]`, ""},
		{"configure c (\n@begin\n- @input.v@\n@end\n)\nsystem s (x = @input.v@)", "\n@end"},
		{`[{"class":"configure","id":"c","recipes":"- a\\n- b"},{"class":"contextualize","items":[{"system":"s","configure":"c"}]}]`, "@input.v@"},
	} {
		f.Add(x.text, x.value)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		d, problems := radl.Parse([]byte(text), map[string]string{"v": value})
		if d == nil {
			if len(problems) == 0 {
				t.Error("no document, and no problem")
			}
			return
		}
		roundTrip(t, "", d)
		cleaned, _ := d.WithoutSecrets()
		roundTrip(t, "without secrets", cleaned)
	})
}
