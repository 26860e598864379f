<?php
file_put_contents("/tmp/count", "x", FILE_APPEND);
echo "hello ", filesize("/tmp/count") > 0 ? "again" : "";
