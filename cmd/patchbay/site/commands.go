package site

import "patchbay/cmd/patchbay/command"

// Commands returns the commands that set up and maintain a site.
func Commands() []command.Command {
	return []command.Command{
		{Use: "init DIR", Short: "Create a site in a new folder", Long: initLong, Options: &initOptions{}, Example: `  patchbay init mysite
  patchbay init --provider local mysite
  patchbay init --authority testbed.example.org --public-url https://am.example.org:8443 /srv/mysite`},
		{Use: "serve", Short: "Serve a site", Long: serveLong, Options: &serveOptions{}, Arguments: command.SomeOf(), Example: `  patchbay serve --config mysite
  patchbay serve --config mysite --listen :9443`},
		{Use: "check [FILE …]", Short: "Find mistakes in a site or an RSpec", Long: checkLong, Options: &checkOptions{}, Example: `  patchbay check --config mysite
  patchbay check request.xml
  patchbay check --config mysite --user alice`},
		{Use: "reload", Short: "Make a running server read its inventory again", Long: reloadLong, Options: &reloadOptions{}, Arguments: command.SomeOf(), Example: `  patchbay reload --config mysite`},
		{Use: "backup FILE", Short: "Back up the database of a site", Long: backupLong, Options: &backupOptions{}, Example: `  patchbay backup --config mysite /backups/monday.db`},
		{Use: "move", Short: "Declare that a copied site is now the original", Long: moveLong, Options: &moveOptions{}, Arguments: command.SomeOf(), Example: `  patchbay move --config copy-of-mysite`},
		{Use: "restore FILE", Short: "Restore the database of a site from a backup", Long: restoreLong, Options: &restoreOptions{}, Example: `  patchbay restore --config mysite /backups/monday.db
  patchbay restore --config mysite --yes /backups/monday.db`},
	}
}
