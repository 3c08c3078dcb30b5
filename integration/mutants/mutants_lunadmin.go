package main

// lunadminMutants take away what keeps fencectl lun from overwriting what is somebody else's, and from a mend by guess.
func lunadminMutants() []mutant {
	const in = "./diskquorum/lunadmin"
	lun := func(what, file, from, to string) mutant {
		m := one("lun", what, "diskquorum/lunadmin/"+file, from, to)
		m.in = []string{in}
		return m
	}
	list := []mutant{
		lun("the last MiB is not read", "survey.go", ", {f.dev.Size() - surveyTail, f.dev.Size()}}", "}"),
		lun("only the area of the format is read", "survey.go", "{0, max(f.end, surveyHead)}", "{0, f.end}"),
		lun("nothing is sampled", "survey.go", "for off := (from + step - 1) &^ (step - 1); off < to; off += step {", "for off := to; off < to; off += step {"),
		lun("the incomplete last block is not read", "image.go", "	if im.dev.Size() == im.size {\n", "	if true {\n"),
		lun("labels of ZFS are wiped in part", "survey.go", "if f.Name == zfsMember {", "if false {"),
		lun("the end is not wiped", "survey.go", "pieces := [][2]int64{{f.dev.Size() - wipeTail, whole}}", "pieces := [][2]int64{}"),
		lun("all of the last MiB is wiped", "survey.go", "{{f.dev.Size() - wipeTail, whole}}", "{{f.dev.Size() - surveyTail, whole}}"),
		lun("what is wiped is not watched", "survey.go", "	for _, l := range f.looks {\n		now, err", "	for _, l := range f.looks[:1] {\n		now, err"),
		lun("LUNs in partitions are not watched", "survey.go", "		f.looks = append(f.looks, l)\n	}\n	if i := firstNonZero(f.rest)", "	}\n	if i := firstNonZero(f.rest)"),
		lun("partitions and disk are not locked", "init.go", "if err == nil && dev.Number() != 0 {", "if false {"),
		lun("the disk of a partition is not locked", "relatives.go", "		relatives = append(relatives, disk)\n", ""),
		lun("a program that has the device open is not seen", "init.go", "len(writers) > 0", "false"),
		lun("a program that has a partition open is not seen", "relatives.go", "for _, d := range append(k.partitions(id.device), k.below(id.device)...) {", "for _, d := range k.below(id.device) {"),
		lun("a program that has the file of a loop device open is not seen", "relatives.go", "			all[file] = true\n", ""),
		lun("a program that has a loop device of the file open is not seen", "relatives.go", "		case file == id:\n", "		case false:\n"),
		lun("a reader counts as a writer", "relatives.go", "flags&unix.O_ACCMODE != unix.O_RDONLY", "(flags|1)&unix.O_ACCMODE != unix.O_RDONLY"),
		lun("who holds the disk of a partition is not seen", "busy.go", "		all = append(all, disk)\n", ""),
		lun("a protective MBR is added beside an old table", "upgrade.go", "if string(im.at(off, len(gptMagic))) != gptMagic {", "if true {"),
		lun("a mend needs no id", "mend.go", "	case o.ID == \"\":\n		return refuse(", "	case false:\n		return refuse("),
		lun("a mend takes the id that was given", "mend.go", "string(given) != string(both[good].sb.ID[:]):", "len(given) == 0:"),
		lun("a mend guesses among slots of two LUNs", "mend.go", "case a.slots > 0 && b.slots > 0:", "case false:"),
		lun("a mend guesses without slots", "mend.go", "case a.slots == 0 && b.slots == 0:", "case false:"),
		lun("a mend goes on while the superblock is written", "mend.go", "if firstDifference(head, again) >= 0 {", "if firstDifference(head, again) >= 1<<40 {"),
		lun("import takes another LUN for a damaged one", "import.go", "case err == nil && found.ID != sb.ID && proven:", "case err == nil && found.ID != sb.ID:"),
		lun("import refuses a copy of another LUN", "import.go", "case err == nil && found.ID != sb.ID && proven:", "case false:"),
		lun("slots that cannot be told are no damage", "slots.go", "	for _, i := range diskquorum.UnreadableSlots(table, sb) {", "	for _, i := range []int(nil) {"),
		lun("a write under way is damage", "slots.go", "	for _, i := range diskquorum.UnreadableSlots(table, sb) {", "	for i := range views {\n		if !views[i].hides() && views[i].copies[0] != copyTorn {\n			continue\n		}"),
	}
	for _, m := range []mutant{
		one("lun", "config init does not read the LUN", "cmd/fencectl/cmd_config_init.go", "		if err := w.meetLUNs(formattedFor); err != nil {", "		if err := w.meetLUNs(formattedFor); false {"),
		one("lun", "config init takes no name from the LUN", "cmd/fencectl/cmd_config_init.go", "			w.cluster = f.Cluster\n", ""),
		one("lun", "too few slots are in order for config check", "cmd/fencectl/cmd_config_init.go", "		case f.Slots < len(c.Members.Static):", "		case false:"),
		one("lun", "a damaged copy of the superblock is in order for the doctor", "cmd/fencectl/doctor/doctor.go", "	case len(f.Damaged) > 0:", "	case false:"),
		one("lun", "config check does not read the LUN", "cmd/fencectl/cmd_config.go", "			err = checkLUNs(r.Config, formattedFor)\n", ""),
		one("lun", "damage is no error", "cmd/fencectl/cmd_lun.go", "	if len(damage) == 0 {", "	if true {"),
	} {
		m.in = []string{"./cmd/fencectl"}
		list = append(list, m)
	}
	mbr := func(what, from, to string) mutant {
		m := one("superblock", what, "diskquorum/superblock.go", from, to)
		return m
	}
	return append(list,
		mbr("the LUN is no protective MBR", "		copy(dst[sbPartition:], protective)\n", ""),
		mbr("the checksum does not end with the boot signature", "		balance(dst[:SectorSize], sealSeed([16]byte{}, uint64(which)))\n", ""),
	)
}
