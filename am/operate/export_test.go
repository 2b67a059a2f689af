package operate

// DoorsWith are Doors with room for so many bytes that wait to be read.
var DoorsWith = doors
