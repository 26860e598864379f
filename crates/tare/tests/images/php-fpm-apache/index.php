<?php
echo "hello from ", php_sapi_name();
