package operate

// DoorsWith returns Doors with a limit of concurrent readers.
var DoorsWith = endpoints

// ListLines returns the text of a list.
var ListLines = (*Operations).listLines
